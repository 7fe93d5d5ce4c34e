"""The first draws of coming steps, rolled out and graded while the steps before them run (rollout.max_staleness=k).

Covered: which draws are under way, and their order. Not covered: what is drawn (ares/runs/run.py, `with_plan`), further
draws of a step (flows/refill.py). Draw n is from the policy after step n − 1 − k, whenever it is made: what a killed
process has finished is kept, and the rest is drawn again from that policy. It is the first of the p parts
(rollout.parts) of step n's responses and the last of step n − p + 1's, which takes it; responses it leaves unfinished
are in that step's commit, and draw n + 1 continues them. The phases belong to the run's own flow run, since they may
outlast the current step.
"""

import asyncio

from ares.runs import Run, under_way
from ares.store import Ref
from flows.refill import Drawn, begun, sample, sample_part

Drawing = asyncio.Task[Drawn]


class Ahead:
    """Draws that are under way or done, by number; none that only steps after `last` would take."""

    def __init__(self, run: Run, last: int) -> None:
        self.run = run
        self.last = last
        self.parts = run.config.rollout.parts
        self._drawing: dict[int, Drawing] = {}

    def begin(self) -> None:
        """Start the draws that the last commit has planned, one after the other."""
        assert self.run.commit is not None
        done, left = self.run.state.step, under_way(self.run.commit)
        planned = dict(enumerate(self.run.state.planned, done + 1))
        for number in planned:
            is_new = done == 0 or number >= done + self.parts  # the commit has the earlier ones
            if is_new and number < self.last + self.parts and number not in self._drawing:
                before = self._drawing.get(number - 1)
                self._drawing[number] = begun(self._drawn(number, planned, before, left))

    async def _drawn(
        self, number: int, planned: dict[int, list[str]], before: Drawing | None, left: list[Ref]
    ) -> Drawn:
        """Make a draw. left: the unfinished responses, if there is no draw `before`."""
        if before is not None:
            await asyncio.wait([before])  # its error is raised in the step that takes it
        step, ready = (self.run.step(each, ahead=True) for each in (number, number + 1 - self.parts))
        if self.parts == 1:
            samples = await sample(step, "rollout", planned[number], step.sampled_version, step.config.rollout.n)
        else:
            left = left if before is None else before.result().under_way
            samples, left = await sample_part(step, planned[number], left, ready, planned.get(ready.number, []))
        timings = step.timings | ready.timings
        timings.pop("timing_s/scoring_wait", None)  # nobody waits
        return Drawn(samples, timings, left)

    def take(self, number: int) -> Drawing | None:
        """Hand out the draw of a step, which is no longer kept here; None: the step makes it itself."""
        return self._drawing.pop(number + self.parts - 1, None)

    def end(self) -> None:
        """Cancel the draws that are not done."""
        for drawing in self._drawing.values():
            drawing.cancel()
