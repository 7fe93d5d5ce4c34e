"""Opening and checking a run and starting its actors before its flow, while Prefect is still being imported.

Not covered: training it (flows/train.py). Prefect is not imported here: that takes a second, in which Ray can start.
"""

import time
from pathlib import Path

from ares.config import ConfigError, load, override
from ares.runs import Run, read_config
from ares.store import name_after, run_store, runs_directory

_prepared: dict[str, Run] = {}
"""Open, checked runs by name, for the flow that starts next."""


def prepare(profile: str | None, overrides: list[str] | None, run: str | None) -> str:
    """Open and check a run, then start its actors; returns its name. Raises what `Run.open` raises.

    Without a profile, an existing run's own settings are used.
    """
    if profile is not None:
        config = load(profile, overrides)
    elif run is not None:
        config = override(read_config(run_store(run)), overrides or [])
    else:
        raise ConfigError("Name a profile to start a run, or the run to resume")
    name = run if run is not None else f"{name_after(Path(str(profile)).stem)}-{time.strftime('%Y%m%d-%H%M%S')}"
    _prepared[name] = opened = Run.open(config, name, runs_directory())
    opened.cluster.begin_warm_up()
    return name


def taken(name: str) -> Run:
    """The run that was prepared under this name."""
    return _prepared.pop(name)
