"""Where runs and their metrics lie: ARES_RUNS and MLFLOW_TRACKING_URI, else here."""

import os
from pathlib import Path
from urllib.parse import unquote

from ares.store.mirror import path_of
from ares.store.names import checked_name
from ares.store.store import RunStore

SQLITE = "sqlite:///"


def runs_directory() -> Path:
    """Where runs lie: ARES_RUNS, else `runs` in the working directory; for a URL its copy on this machine."""
    return path_of(os.environ.get("ARES_RUNS") or "runs")


def run_store(name: str, runs: Path | None = None) -> RunStore:
    """The files of a run, by its name. Raises StoreError for a name that no run can have."""
    return RunStore((runs or runs_directory()) / checked_name(name))


def runs_in(directory: Path) -> list[RunStore]:
    """The runs of a directory by name; at a URL also those without a copy here."""
    paths = sorted(RunStore(directory).children(""))
    stores = [RunStore(path) for path in paths if path.name[0] != "." and not path.is_file()]
    return [store for store in stores if store.exists()]


def tracking_uri(configured: str | None, runs: Path) -> str:
    """Where metrics go: the profile's server, MLFLOW_TRACKING_URI, else a database beside the runs."""
    return configured or os.environ.get("MLFLOW_TRACKING_URI") or database_beside(runs)


def database_beside(runs: Path) -> str:
    """The tracking URI of the database beside runs."""
    return SQLITE + str(runs.absolute() / "mlflow.db").replace("%", "%25").replace("?", "%3F")  # as SQLAlchemy reads it


def database_of(uri: str) -> Path | None:
    """The file of a tracking URI; None for a server."""
    return Path(unquote(uri.removeprefix(SQLITE).partition("?")[0])) if uri.startswith(SQLITE) else None
