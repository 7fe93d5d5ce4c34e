"""What coming steps draw first, rolled out and graded beside the steps before them (rollout.max_staleness=k).

Covered: which draws are under way, and their order. Not covered: what is drawn (ares/runs/run.py, `with_plan`), what a
step draws besides (flows/refill.py). Step n samples from the policy after step n − 1 − k, whenever it does: what a
killed process has finished is kept, and the rest is drawn again from that policy. The phases belong to the run's own
flow run, since they may outlast the step that is under way.
"""

import asyncio

from ares.runs import Run, Step
from flows.refill import begun, sample
from tasks.training import Samples

Drawing = asyncio.Task[tuple[Samples, dict[str, float]]]


class Ahead:
    """Draws that are under way or done, by the step that will take them; none for steps after `last`."""

    def __init__(self, run: Run, last: int) -> None:
        self.run = run
        self.last = last
        self._drawing: dict[int, Drawing] = {}

    def begin(self) -> None:
        """Begin on what the last commit has planned, one draw after the other."""
        for number, ids in enumerate(self.run.state.planned, self.run.state.step + 1):
            if number <= self.last and number not in self._drawing:
                before = self._drawing.get(number - 1)
                self._drawing[number] = begun(_drawn(self.run.step(number), ids, before))

    def take(self, number: int) -> Drawing | None:
        """The draw of a step, which is no longer kept here: a step without one draws it itself."""
        return self._drawing.pop(number, None)

    def end(self) -> None:
        """Leave what is not done."""
        for drawing in self._drawing.values():
            drawing.cancel()


async def _drawn(step: Step, ids: list[str], before: Drawing | None) -> tuple[Samples, dict[str, float]]:
    """The samples, and the seconds of their phases."""
    if before is not None:
        await asyncio.wait([before])  # what it raises is told to the step that takes it
    samples = await sample(step, "rollout", ids, step.sampled_version, step.config.rollout.n)
    del step.timings["timing_s/scoring_wait"]  # nobody waits
    return samples, step.timings
