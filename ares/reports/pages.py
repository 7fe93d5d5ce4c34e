"""The address of MLflow's UI, if one is running."""

import json
import os
from pathlib import Path

from ares.printable import without_credentials

VIEW = "ares"
"""Key of the saved view: the page of an experiment shows it at `?viewStateShareKey=ares`."""


def mlflow_page(uri: str, runs: Path) -> str | None:
    """Address of the UI for a tracking URI: the server's own, else that of `ares up`."""
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
