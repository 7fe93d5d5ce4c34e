"""`ares …` in a process that kills itself with SIGKILL at a named moment: KILL_AT=step:phase:moment.

Moments: `before` the phase, `inside` it (its work is done, its result not kept yet), `after` it (its result is kept),
and for phase `commit` the instant before the commit file gets its name.
"""

import os
import signal
from typing import Any

import ares.store
import tasks.phase
from flows.cli import main

step, phase, moment = os.environ.get("KILL_AT", "-1:none:before").split(":")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_here(at: Any, name: str, now: str) -> bool:
    return at.number == int(step) and name == phase and now == moment


call, construct, replace = tasks.phase.Phase.__call__, tasks.phase.Phase.__init__, os.replace


async def killed_call(self: Any, at: Any, *inputs: Any, **options: Any) -> Any:
    if is_here(at, self.name, "before"):
        die()
    result = await call(self, at, *inputs, **options)
    if is_here(at, self.name, "after"):
        die()
    return result


def killed_replace(source: Any, target: Any) -> None:
    if phase == "commit" and str(target).endswith(f"steps/{int(step):06d}/COMMIT.json"):
        die()
    replace(source, target)


def killed_inside(found: Any) -> None:
    function = found.task.fn

    async def work(step: Any, *inputs: Any, **named: Any) -> Any:
        result = await function(step, *inputs, **named)
        if is_here(step, found.name, "inside"):
            die()
        return result

    found.task.fn = work


tasks.phase.Phase.__call__ = killed_call  # type: ignore[method-assign]
ares.store.os.replace = killed_replace  # type: ignore[attr-defined]
if moment == "inside":
    import tasks.sampling
    import tasks.training

    for module in (tasks.sampling, tasks.training):
        for found in vars(module).values():
            if isinstance(found, tasks.phase.Phase):
                killed_inside(found)
main()
