"""What episodes cost: how busy the engine is while environments answer, what k turns take against k single responses
of the same length, and what the turns that are kept save after a kill in the last one.

One draw of 32 problems × 8 samples by tiny-math's model; an environment takes 50 ms to answer.

    python -m benchmarks.episodes [TURNS]
"""

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ares.config import load
from ares.engines.transformers import TransformersEngine
from ares.runs import Run
from flows.draw import sample, shards_of

PAUSING = """
import time
from ares.environments import Reply

class Pausing:
    def __init__(self, turns: int, pause: float) -> None:
        self.turns, self.pause = turns, pause

    def reset(self, row, seed):
        return f"{seed % 100}+0="

    def step(self, text):
        time.sleep(self.pause)
        self.turns -= 1
        return Reply("1+1=", reward=1.0, done=not self.turns)
"""
SETTINGS = [
    "data.train=episodes?size=32", "data.validation=null", "data.max_prompt_length=64", "rollout.prompts=32",
    "rollout.n=8", "rollout.shard_prompts=4", "rollout.max_response_length=32", "algorithm.filter.enabled=false",
    "reward.kind=environment", "reward.accuracy=1.0",
]  # fmt: skip


class Dead(Exception):
    """In place of a kill: all that is not kept is lost."""


class Engine:
    """The seconds and tokens of TransformersEngine. calls: after so many it is dead."""

    def __init__(self, calls: float = float("inf")) -> None:
        self.seconds, self.tokens, self.calls = 0.0, 0, calls
        self._stream = TransformersEngine.stream

    def __enter__(self) -> "Engine":
        TransformersEngine.stream = lambda *asked: self._timed(*asked)  # type: ignore[method-assign]
        return self

    def __exit__(self, *error: object) -> None:
        TransformersEngine.stream = self._stream  # type: ignore[method-assign]

    def _timed(self, *asked: Any) -> Iterator[Any]:
        self.calls -= 1
        if self.calls < 0:
            raise Dead
        started = time.perf_counter()
        for finished in self._stream(*asked):
            self.tokens += sum(len(completion.token_ids) for _, completion in finished)
            yield finished
        self.seconds += time.perf_counter() - started


def draw(folder: Path, name: str, turns: int, pause: float) -> float:
    """Seconds of a draw; the models are loaded before."""
    how = f"{{kind: '{folder / 'pausing.py'}:Pausing', settings: {{turns: {turns}, pause: {pause}}}, processes: 32, "
    run = Run.open(load("tiny-math", [*SETTINGS, f"environment={how}max_turns: {turns}}}"]), name, folder)
    try:
        step, settings = run.step(0), run.config.rollout
        ids = run.train_set.frame["id"].tolist()

        async def work() -> float:
            await run.workers.save(0, "loaded")
            started = time.perf_counter()
            await sample(step, shards_of(step, "bootstrap", ids, 0, settings.n))
            return time.perf_counter() - started

        return asyncio.run(work())
    finally:
        run.close()


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory(prefix="ares-benchmark-") as name:
        folder = Path(name)
        (folder / "pausing.py").write_text(PAUSING)
        with Engine() as whole:
            seconds = draw(folder, "whole", turns, 0.05)
        print(f"{turns} turns, 50 ms each: {seconds:.1f} s, the engine busy {whole.seconds / seconds:.0%}")
        with Engine() as single:
            for number in range(turns):
                draw(folder, f"single-{number}", 1, 0.0)
        print(f"engine: {turns} turns {whole.seconds:.1f} s, {turns} single responses {single.seconds:.1f} s "
              f"({whole.seconds / single.seconds:.2f} ×)")  # fmt: skip
        with Engine(calls=8 * turns - 1), contextlib.suppress(Dead):
            draw(folder, "killed", turns, 0.05)
        with Engine() as resumed:
            again = draw(folder, "killed", turns, 0.05)
        print(f"killed in the last turn: {resumed.tokens:,} of {whole.tokens:,} tokens are sampled again, "
              f"{again:.1f} of {seconds:.1f} s")  # fmt: skip


if __name__ == "__main__":
    main()
