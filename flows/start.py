"""Opening a run and training it: plainly in this process, or inside a flow run with Prefect, Ray and MLflow.

Covered: what surrounds the loop: the lock, the terminal, MLflow, the conductor. Not covered: the loop (flows/train.py).
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ares.config import Config, ConfigError, load, override
from ares.reports import Display, Reporting
from ares.runs import Conductor, MakeWorkers, Run
from ares.store import name_after, read_config, run_store, runs_directory
from ares.workers import PlainWorkers
from flows.train import train
from flows.watch import Trip, rewind


def open_run(
    profile: str | None,
    overrides: list[str] | None,
    name: str | None,
    made_by: MakeWorkers = PlainWorkers,
    config: Config | None = None,
) -> Run:
    """Open and check a run, its settings those of a profile or, without one, its own. Raises what `Run.open` raises.

    config: what the profile and the overrides say, where they have been read already.
    """
    if profile is not None:
        config = config or load(profile, overrides)
    elif name is not None:
        config = override(read_config(run_store(name)), overrides or [])
    else:
        raise ConfigError("Name a profile to start a run, or the run to resume")
    own = name if name is not None else f"{name_after(Path(str(profile)).stem)}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Run.open(config, own, runs_directory(), made_by, may_round=profile is None)


@contextmanager
def held(run: Run, with_mlflow: bool = True) -> Iterator[tuple[Display, Callable[[], None]]]:
    """Hold a run from its last commit on; its display, and what tells it and the trackers of each commit. Leaving ends
    the run's learner, engine and graders."""
    try:
        with run.store.lock():
            run.restore()
            with Display(run) as display, Reporting(run, with_mlflow) as reporting:

                def committed() -> None:
                    display.committed()
                    reporting.committed()

                yield display, committed
    finally:
        run.close()


def train_plainly(run: Run) -> dict[str, Any]:
    """Train a run in this process, without Prefect, Ray and MLflow; `ares resume` logs it to MLflow later."""
    while True:
        with held(run, with_mlflow=False) as (display, committed):
            trip = asyncio.run(train(run, Conductor(), committed))
        if trip is None:
            return display.summary()
        run = _rewound(run, trip)


def _rewound(run: Run, trip: Trip) -> Run:
    """The fork that a rewound run goes on as, as far as the run was to go."""
    train = run.config.train
    steps = [f"train.steps={train.steps}", f"train.tokens={'null' if train.tokens is None else train.tokens}"]
    return open_run(None, steps, rewind(run, trip), type(run.workers))


async def conduct(run: Run, last: int | None = None) -> dict[str, Any]:
    """Train a run (to step `last`) inside a flow run."""
    from flows.prefect_conductor import PrefectConductor

    while True:
        with held(run) as (display, committed), PrefectConductor(run) as conductor:
            run.workers.warm_up()
            trip = await train(run, conductor, committed, last)
        if trip is None:
            return display.summary()
        run = await asyncio.to_thread(_rewound, run, trip)
