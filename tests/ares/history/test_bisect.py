"""The search for the step that made an accuracy fall: it asks for few steps, and says where it is not clear."""

import asyncio
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from algorithms.protocol import DataProto
from ares.config import override
from ares.history import Fall, Probe, find_fall, open_past, rank_groups
from ares.history.bisect import HeldOut

PROBLEMS = 200


def searched(curve: list[float], samples: int = 8) -> tuple[Fall | None, list[Probe]]:
    """Search a fall from the first to the last step of a curve of true accuracies, with the same noise at each step."""
    noise, ease = np.random.default_rng(0).random((PROBLEMS, 64)), np.random.default_rng(1).normal(0, 0.1, PROBLEMS)

    async def measure(step: int, at: int) -> pd.Series:
        right = noise[:, :at] < (curve[step] + ease)[:, None]
        return pd.Series(right.mean(1), index=[f"p{row}" for row in range(PROBLEMS)])

    told: list[Probe] = []
    return asyncio.run(find_fall(0, len(curve) - 1, samples, measure, told.append)), told


@pytest.mark.parametrize("step", [1, 2, 11, 19, 20])
def test_a_fall_in_one_step_is_found_in_about_as_many_probes_as_halvings(step: int) -> None:
    fall, told = searched([0.7] * step + [0.6] * (21 - step))
    assert (fall.before, fall.after) == (step - 1, step)
    assert fall.size.low > 0
    assert fall.size.mean == pytest.approx(0.1, abs=0.03)
    assert len(told) <= 2 * 6


def test_a_problem_that_some_step_has_no_score_of_is_left_out() -> None:
    async def measure(step: int, at: int) -> pd.Series:
        right = pd.Series(np.arange(40) % 10 < (8 if step < 7 else 3), dtype=float)
        return right.drop(5) if step == 10 else right

    fall = asyncio.run(find_fall(0, 10, 8, measure, lambda _: None))
    assert (fall.before, fall.after, fall.size.count) == (6, 7, 40)


@pytest.mark.parametrize("curve", [[0.6] * 5, [0.5, 0.6, 0.6, 0.7]])
def test_where_nothing_fell_nothing_is_found(curve: list[float]) -> None:
    assert searched(curve)[0] is None


def test_a_few_problems_that_fell_alike_are_no_clear_fall() -> None:
    """By chance two of two do in half of all cases; the interval without width was taken for certainty."""

    async def measure(step: int, at: int) -> pd.Series:
        return pd.Series([float(step < 3)] * 2)

    assert asyncio.run(find_fall(0, 4, 8, measure, lambda _: None)) is None


def test_a_gradual_fall_has_no_step_and_the_search_says_between_which_it_lies() -> None:
    fall, told = searched(np.linspace(0.7, 0.5, 21).tolist())
    assert fall.before < 10 < fall.after
    assert fall.after - fall.before > 1
    assert [probe.samples for probe in told[-2:]] == [8, 32]
    assert not told[-1].is_clear


def test_a_dip_that_has_passed_is_not_taken_for_the_fall() -> None:
    fall, _ = searched([0.7, 0.7, 0.5, 0.7, 0.7, 0.7, 0.6, 0.6, 0.6])
    assert (fall.before, fall.after) == (5, 6)


def test_a_group_is_left_out_with_its_entropy_bonus(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_past("uninterrupted", runs)
    run.config = override(run.config, ["algorithm.entropy_bonus.coef=0.1"])
    batch = DataProto.load(run.store.path(run.store.read_commit(4).artifacts["batch"]))
    slots = batch.non_tensor_batch["uid"].astype(int)
    learnt = {name: torch.zeros_like(batch.tensor(name)) for name in ("advantages", "kl_coefs") if name in batch.fields}
    learnt["entropy_coefs"] = torch.from_numpy(slots == slots[0]).float()[:, None] * batch.tensor("response_mask")

    def load(path: Path) -> DataProto:
        loaded = original(path)
        loaded.batch.update(learnt)
        return loaded

    original = DataProto.load
    monkeypatch.setattr("ares.history.bisect.DataProto.load", load)
    held_out = HeldOut(batch, torch.ones(len(batch), dtype=torch.float64), torch.arange(len(batch)), len(batch))
    effects = {group.slot: group.effect.mean for group in rank_groups(run, 4, held_out)}
    assert {slot for slot, effect in effects.items() if effect != 0} == {slots[0]}
