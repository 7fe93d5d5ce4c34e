"""`ares …` in a process that kills itself with SIGKILL at a named moment: KILL_AT=step:phase:moment.

A phase may be named with its label: `turn 0 2` is the second turn of shard 0.

Moments: `before` the phase, `inside` it (its work is done, its result not kept yet), `after` it (its result is kept), a
number of seconds after its work began (whatever it is doing), and for phase `commit` the instant before (`before`)
or after (`after`) the commit file gets its name. CLOCK_JUMP=step:seconds moves the clock when that step begins.
"""

import os
import signal
import threading
import time
from typing import Any

import ares.store.store
import tasks.phase
from flows.cli.main import main

step, phase, moment = os.environ.get("KILL_AT", "-1:none:before").split(":")
seconds = float(moment) if moment[0].isdigit() else None


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_here(at: Any, name: str, now: str, label: str = "") -> bool:
    return at.number == int(step) and phase in (name, f"{name} {label}") and now == moment


call, replace = tasks.phase.Phase.__call__, os.replace
jump_step, jump_seconds = (int(part) for part in os.environ.get("CLOCK_JUMP", "-1:0").split(":"))
jumped = 0
now, now_ns = time.time, time.time_ns
time.time = lambda: now() + jumped
time.time_ns = lambda: now_ns() + jumped * 1_000_000_000


async def killed_call(self: Any, at: Any, *inputs: Any, **options: Any) -> Any:
    global jumped
    if at.number == jump_step:
        jumped = jump_seconds
    label = options.get("label", "")
    if is_here(at, self.name, "before", label):
        die()
    result = await call(self, at, *inputs, **options)
    if is_here(at, self.name, "after", label):
        die()
    return result


def killed_replace(source: Any, target: Any) -> None:
    folder = "bootstrap" if int(step) == 0 else f"steps/{int(step):06d}"
    here = phase == "commit" and str(target).endswith(f"{folder}/COMMIT.json")
    if here and moment == "before":
        die()
    replace(source, target)
    if here:
        die()


def killed_inside(phase: Any) -> None:
    function = phase.function

    async def work(step: Any, *inputs: Any, **named: Any) -> Any:
        if seconds is not None and is_here(step, phase.name, moment):
            threading.Timer(seconds, die).start()
        result = await function(step, *inputs, **named)
        if is_here(step, phase.name, "inside"):
            die()
        return result

    phase.function = work


tasks.phase.Phase.__call__ = killed_call  # type: ignore[method-assign]
ares.store.store.os.replace = killed_replace  # type: ignore[attr-defined]
if moment == "inside" or seconds is not None:
    import tasks.demonstrations
    import tasks.episodes
    import tasks.mismatch
    import tasks.sampling
    import tasks.training

    for module in (tasks.demonstrations, tasks.episodes, tasks.mismatch, tasks.sampling, tasks.training):
        for found in vars(module).values():
            if isinstance(found, tasks.phase.Phase):
                killed_inside(found)
main()
