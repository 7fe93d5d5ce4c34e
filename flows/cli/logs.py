"""What is logged while a command runs: ours on the terminal, a line each; everyone else's in the run's `log.txt`.

Covered: Prefect, Ray, MLflow and Python's warnings, in this process and in the Prefect server that it starts; with `-v`
all of it is on the terminal too, with `--log-format json` as lines of JSON. Not covered: the actors' output, which Ray
keeps (its folder stands in `log.txt`), Prefect's Logs tab (flows/run_log.py).
"""

import logging
import logging.handlers
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


class File(logging.FileHandler):
    """Records in a file; the first that cannot be written is reported in a line, and no more are written."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, encoding="utf-8", delay=True)
        self._is_lost = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record."""
        if self._is_lost:
            return
        try:
            if self.stream is None:
                Path(self.baseFilename).parent.mkdir(parents=True, exist_ok=True)  # an ablation's comes with its flow
                self.stream = self._open()
            self.stream.write(self.format(record) + self.terminator)
            self.flush()
        except OSError as error:
            self._is_lost = True
            text = f"warning: {self.baseFilename}: cannot be written: {error.strerror}"
            errors.print(text, style=_COLOURS[logging.WARNING], markup=False)


class EarlyRecords(logging.handlers.MemoryHandler):
    """Keeps records in memory until their file is known, then writes them there; the first one creates it."""

    def __init__(self) -> None:
        super().__init__(capacity=0, flushOnClose=False)

    @property
    def file(self) -> Path | None:
        """The file, once something is in it."""
        file = Path(self.target.baseFilename) if isinstance(self.target, logging.FileHandler) else None
        return file if file is not None and file.exists() else None


def is_ours(record: logging.LogRecord) -> bool:
    """Whether a record is ours, and not a library's."""
    return record.name.partition(".")[0] in OURS


def set_up(verbose: bool) -> EarlyRecords:
    """Called before any library sets up its own logging: Prefect leaves existing handlers alone."""
    kept, terminal = EarlyRecords(), JsonLines() if is_json() else Terminal()
    least = logging.INFO if is_json() else logging.WARNING
    terminal.addFilter(lambda record: verbose or (is_ours(record) and record.levelno >= least))
    root = logging.getLogger()
    replaced = (
        EarlyRecords.__module__,
        JsonLines.__module__,
        "prefect.logging.handlers",
    )  # ours of before; Prefect's, where it was imported before
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
        if isinstance(kept, EarlyRecords):
            file = File(folder / KEPT)
            file.setFormatter(_FORMAT)
            kept.setTarget(file)
            kept.flush()
