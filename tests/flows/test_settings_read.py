"""Which settings the phases of a step read, recorded: none is read before its phase in FIRST_USE."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pydantic import BaseModel

import flows.draw
from ares.config import Strict, result_settings
from ares.config.profiles import load
from ares.config.run import Config
from ares.runs.phase_settings import PHASES, UPDATE, WEIGHTS, earlier_uses, first_use
from ares.runs.run import Run
from tasks.phase import Phase
from tasks.training import choose, experience, shape_batch

SMALL = ["rollout.n=2", "rollout.prompts=2", "learner.global_batch_prompts=2", "algorithm.filter.enabled=false"]


class Recorder:
    """Settings by the phase that read them."""

    def __init__(self) -> None:
        self.reads: dict[str, set[str]] = defaultdict(set)
        self.phase: ContextVar[str | None] = ContextVar("phase", default=None)
        self.sections: dict[int, str] = {}

    def watch(self, section: BaseModel, prefix: str = "") -> None:
        self.sections[id(section)] = prefix
        for name in type(section).model_fields:
            value = getattr(section, name)
            if isinstance(value, BaseModel):
                self.watch(value, f"{prefix}{name}.")

    def read(self, section: BaseModel, name: str) -> Any:
        phase, prefix = self.phase.get(), self.sections.get(id(section))
        value = object.__getattribute__(section, name)
        is_setting = prefix is not None and name in type(section).model_fields and not isinstance(value, BaseModel)
        if phase is not None and is_setting:
            self.reads[phase].add(f"{prefix}{name}")
        return value

    @contextmanager
    def within(self, phase: str) -> Iterator[None]:
        token = self.phase.set(phase)
        try:
            yield
        finally:
            self.phase.reset(token)


async def first_step(run: Run) -> None:
    step = run.step(1)
    chosen = await flows.draw.draw(step, flows.draw.Ahead(run, 1))
    samples = chosen.samples
    measured = chosen.measured or [await experience(step, samples.rollouts, samples.slots, "experience")]
    await shape_batch(step, samples, measured)


def recorded(config: Config, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """Settings that each phase of a step reads."""
    recorder, draws = Recorder(), flows.draw.shards_of
    run, _ = Run.check(config, "run", folder)
    run.workers.warm_up()  # making a model reads how it is made: it is the phases' reading that counts
    run.grader.start()
    recorder.watch(run.config)
    anticipate = run.grader.anticipate

    async def phase(self: Phase[Any], step: Any, *inputs: Any, label: str = "") -> Any:
        with recorder.within(self.name):
            return await self.function(step, *inputs)

    def drawn(*arguments: Any) -> Any:
        with recorder.within("rollout"):
            return draws(*arguments)

    def anticipated(rows: pd.DataFrame) -> None:
        with recorder.within("score"):
            anticipate(rows)

    def chosen(*arguments: Any) -> None:
        with recorder.within("shape" if config.measures_all else "experience"):
            choose(*arguments)

    monkeypatch.setattr(Phase, "__call__", phase)
    monkeypatch.setattr(flows.draw, "shards_of", drawn)
    monkeypatch.setattr(run.grader, "anticipate", anticipated)
    monkeypatch.setattr(flows.draw, "choose", chosen)
    monkeypatch.setattr(Strict, "__getattribute__", lambda self, name: recorder.read(self, name), raising=False)
    try:
        asyncio.run(first_step(run))
    finally:
        run.close()
    return recorder.reads


@pytest.mark.parametrize(
    ("profile", "settings"),
    [
        ("tiny-math", ["algorithm.filter.enabled=true", "algorithm.kl.penalty=full", "algorithm.kl.kind=bucket_beta"]),
        ("tiny-code-feedback", ["reward.code.design=dense_weighted", "reward.code.workers=1"]),
        *(
            pytest.param(profile, settings, marks=pytest.mark.slow)
            for profile, settings in [
                ("tiny-math", []),
                ("tiny-math", ["algorithm.advantage.estimator=gae", "algorithm.kl.placement=reward"]),
                ("tiny-math", ["algorithm.advantage.estimator=remax", "algorithm.overlong.mask_truncated=true"]),
                ("tiny-diffusion", ["reward.code.workers=1"]),
            ]
        ),
    ],
)
def test_no_phase_reads_what_a_fork_sharing_it_may_change(
    profile: str, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_config = load(profile, [*SMALL, *settings])
    reads = recorded(run_config, tmp_path, monkeypatch)
    assert set(reads) == set(PHASES)
    assert "rollout.temperature" in reads["rollout"]
    assert "algorithm.advantage.estimator" in reads["shape"]
    uses = earlier_uses(run_config, run_config)
    for number, phase in enumerate(PHASES):
        earlier = {name for part in (WEIGHTS, *PHASES[: number + 1]) for name in uses.get(part, {})}
        mine = reads[phase] & set(result_settings(run_config)) - earlier
        later = {name for name in mine if first_use(name) in (*PHASES[number + 1 :], UPDATE)}
        assert not later, f"{phase} reads {later}: FIRST_USE has them later"
