"""What is logged while a command runs: ours on the terminal, a line each; everyone else's in the run's `log.txt`.

Covered: Prefect, Ray, MLflow and Python's warnings, in this process and in the Prefect server that it starts; with `-v`
all of it is on the terminal too, with ARES_LOG_FORMAT=json as lines of JSON. Not covered: the actors' output, which Ray
keeps (its folder stands in `log.txt`), Prefect's Logs tab (flows/run_log.py).
"""

import logging
from pathlib import Path

from flows.cli.command import errors
from flows.run_log import OURS, JsonLines, is_json

KEPT = "log.txt"
_COLOURS = {logging.WARNING: "yellow", logging.ERROR: "red", logging.CRITICAL: "red"}
_FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


class Terminal(logging.Handler):
    """Records on stderr, above a progress bar where there is one."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record: a warning of ours without its time and place."""
        text = f"{record.levelname.lower()}: {record.getMessage()}" if is_ours(record) else self.format(record)
        errors.print(text, style=_COLOURS.get(record.levelno), markup=False)


class RunLog(logging.Handler):
    """Keeps records until their file is known, then writes them there; the first one creates it.

    The first that cannot be written is reported in a line, and no more are written.
    """

    def __init__(self) -> None:
        super().__init__()
        self._path: Path | None = None
        self._waiting: list[str] = []

    @property
    def file(self) -> Path | None:
        """The file, once something is in it."""
        return self._path if self._path is not None and self._path.exists() else None

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, and write it if the file is known."""
        self._waiting.append(f"{self.format(record)}\n")
        if self._path is not None:
            self.write_to(self._path)

    def write_to(self, path: Path) -> None:
        """Write what was kept to a file, and from now on all records."""
        self._path = path
        if not self._waiting:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)  # an ablation's comes with its flow
            with path.open("a", encoding="utf-8") as file:
                file.writelines(self._waiting)
        except OSError as error:
            logging.getLogger().removeHandler(self)
            errors.print(
                f"warning: {path}: cannot be written: {error.strerror}", markup=False, style=_COLOURS[logging.WARNING]
            )
        self._waiting.clear()


def is_ours(record: logging.LogRecord) -> bool:
    """Whether a record is ours, and not a library's."""
    return record.name.partition(".")[0] in OURS


def set_up(verbose: bool) -> RunLog:
    """Called before any library sets up its own logging: Prefect leaves existing handlers alone."""
    kept, terminal = RunLog(), JsonLines() if is_json() else Terminal()
    least = logging.INFO if is_json() else logging.WARNING
    terminal.addFilter(lambda record: verbose or (is_ours(record) and record.levelno >= least))
    root = logging.getLogger()
    # Ours of an earlier call; Prefect's, where it was imported before.
    replaced = (RunLog.__module__, JsonLines.__module__, "prefect.logging.handlers")
    root.handlers = [handler for handler in root.handlers if type(handler).__module__ not in replaced]
    for handler in (kept, terminal):
        handler.setFormatter(_FORMAT)
        root.addHandler(handler)
    root.setLevel(logging.INFO if verbose else logging.WARNING)
    for room in OURS:
        logging.getLogger(room).setLevel(logging.INFO)
    logging.captureWarnings(True)
    return kept


def keep_in(folder: Path) -> None:
    """Write what was logged, and what will be, to the `log.txt` of a folder, as soon as there is something."""
    for kept in logging.getLogger().handlers:
        if isinstance(kept, RunLog):
            kept.write_to(folder / KEPT)
