"""Where runs and their metrics lie: ARES_RUNS and MLFLOW_TRACKING_URI, else here. Valid names of runs, forks and
ablations: one folder on every system, and never mistaken for an option."""

import json
import os
import re
from pathlib import Path
from urllib.parse import unquote

from ares.printable import without_credentials
from ares.store.errors import StoreError
from ares.store.mirror import path_of
from ares.store.store import RunStore

SQLITE = "sqlite:///"
LONGEST = 100
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
RULE = f"letters, digits, '.', '_' and '-', a letter or digit first, at most {LONGEST} characters"
TAKEN = ("evals", "mlartifacts", "mlflow.db")
"""What else lies in a directory of runs: evaluations of models, and MLflow's files."""


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


def mlflow_page(uri: str, runs: Path) -> str | None:
    """Address of the UI for a tracking URI: the server's own, else that of `ares up`; None: none is running."""
    told, server, page = os.environ.get("ARES_MLFLOW_PAGE"), uri.startswith("http"), without_credentials(uri)
    if told is not None and (not server or page == without_credentials(os.environ.get("MLFLOW_TRACKING_URI", ""))):
        return told.rstrip("/")  # inside a container the same server has another name than for a browser
    if server:
        return page.rstrip("/")
    try:
        services = json.loads((runs / ".services" / "services.json").read_text())
        os.kill(int(services["pid"]), 0)
        return str(services["mlflow"])
    except (OSError, ValueError, KeyError):
        return None


def is_name(name: str) -> bool:
    """Whether a name is valid."""
    return _NAME.fullmatch(name) is not None


def name_after(text: str) -> str:
    """A valid name made from a text: other characters become dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[: LONGEST // 2] or "run"


def name_of_rewind(name: str) -> str:
    """The name of the fork that a run goes back and on as."""
    first, _, number = name.rpartition("-rewind-")
    return f"{first}-rewind-{int(number) + 1}" if first and number.isdecimal() else f"{name}-rewind-1"


def checked_name(name: str) -> str:
    """The name, if it is valid. Raises StoreError, which states the rule."""
    if not is_name(name):
        shown = name if len(name) <= LONGEST else f"{name[:20]}… ({len(name)} characters)"
        raise StoreError(f"{shown!a} cannot be the name of a run or an ablation: {RULE}")
    if name in TAKEN:
        raise StoreError(f"{name!r} cannot be the name of a run: something else of that name lies beside the runs")
    return name
