"""What is logged while a command runs: ours on the terminal, a line each; everyone else's in the run's `log.txt`.

Covered: Prefect, Ray, MLflow and Python's warnings, in this process and in the Prefect server that it starts; with `-v`
all of it is on the terminal too, with ARES_LOG_FORMAT=json as lines of JSON. Not covered: the actors' output, which Ray
keeps (its folder stands in `log.txt`), Prefect's Logs tab (flows/run_log.py).
"""

import logging
from logging.handlers import MemoryHandler
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
        errors.print(text, style=_COLOURS.get(record.levelno))


class LogFile(logging.FileHandler):
    """A `log.txt`, made with its first record; the first that cannot be written is reported, and no more are."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, delay=True, encoding="utf-8")
        self.path, self._is_broken = path, False
        self.setFormatter(_FORMAT)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        if self._is_broken:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)  # an ablation's comes with its flow
            super().emit(record)
        except OSError as error:
            self._is_broken = True
            told = f"warning: {self.path}: cannot be written: {error.strerror}"
            errors.print(told, style=_COLOURS[logging.WARNING])

    def handleError(self, record: logging.LogRecord) -> None:
        """Raise what happened, for `emit`."""
        raise


def is_ours(record: logging.LogRecord) -> bool:
    """Whether a record is ours, and not a library's."""
    return record.name.partition(".")[0] in OURS


def set_up(verbose: bool) -> None:
    """Called before any library sets up its own logging: Prefect leaves existing handlers alone."""
    kept, terminal = MemoryHandler(capacity=1), JsonLines() if is_json() else Terminal()
    least = logging.INFO if is_json() else logging.WARNING
    terminal.addFilter(lambda record: verbose or (is_ours(record) and record.levelno >= least))
    root = logging.getLogger()
    # Ours of an earlier call; Prefect's, where it was imported before.
    replaced = (__name__, MemoryHandler.__module__, JsonLines.__module__, "prefect.logging.handlers")
    root.handlers = [handler for handler in root.handlers if type(handler).__module__ not in replaced]
    terminal.setFormatter(_FORMAT)
    for handler in (kept, terminal):
        root.addHandler(handler)
    root.setLevel(logging.INFO if verbose else logging.WARNING)
    for room in OURS:
        logging.getLogger(room).setLevel(logging.INFO)
    logging.captureWarnings(True)


def keep_in(folder: Path) -> None:
    """Write what was logged, and what will be, to the `log.txt` of a folder, as soon as there is something."""
    for kept in logging.getLogger().handlers:
        if isinstance(kept, MemoryHandler):  # it keeps records until it has a target
            kept.setTarget(LogFile(folder / KEPT))
            kept.flush()


def kept_file() -> Path | None:
    """The file that is written, once something is in it."""
    targets = [getattr(handler, "target", None) for handler in logging.getLogger().handlers]
    return next((each.path for each in targets if isinstance(each, LogFile) and each.path.exists()), None)
