"""The warm start of tiny-diffusion: repeatable, and the shipped checkpoint is what the run needs."""

import dataclasses
import json
import random
from pathlib import Path

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from examples.tiny import CHECKPOINTS, masked_model
from examples.tiny.diffusion_warmstart import DIFFUSION, DIFFUSION_HARD, Classroom, MaskedTask, Report, warmstart
from examples.tiny.problems.one_liners import split_problems

SHIPPED = CHECKPOINTS / DIFFUSION.folder


def brief(folder: Path, task: MaskedTask = DIFFUSION) -> Report:
    """A few steps, measured on a few problems."""
    measure = Classroom.measure
    short = tuple(dataclasses.replace(lesson, steps=4, batch_size=8) for lesson in task.lessons)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Classroom, "measure", lambda room, problems: measure(room, problems[:12]))
        return warmstart(folder, dataclasses.replace(task, lessons=short))


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Report]:
    folder = tmp_path_factory.mktemp("short")
    return folder, brief(folder)


def test_the_same_seed_gives_the_same_bits_and_the_global_generators_are_left_alone(
    short: tuple[Path, Report], tmp_path: Path
) -> None:
    folder, report = short
    state, other = torch.get_rng_state(), random.getstate()
    assert brief(tmp_path) == report
    assert torch.equal(torch.get_rng_state(), state)
    assert random.getstate() == other
    for name in ("model.safetensors", "train.jsonl", "heldout.jsonl", "tokenizer.json", "warmstart.json"):
        assert (tmp_path / name).read_bytes() == (folder / name).read_bytes(), name


def test_the_shipped_problems_are_those_that_the_seed_gives(short: tuple[Path, Report], tmp_path: Path) -> None:
    brief(tmp_path, DIFFUSION_HARD)
    for shipped, folder in ((SHIPPED, short[0]), (CHECKPOINTS / DIFFUSION_HARD.folder, tmp_path)):
        for name in ("train.jsonl", "heldout.jsonl", "tokenizer.json"):
            assert (shipped / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.parametrize(
    ("task", "low", "high"),
    [(DIFFUSION, 0.2, 0.5), (DIFFUSION_HARD, 0.05, 0.25)],
    ids=lambda it: getattr(it, "name", ""),
)
def test_the_shipped_model_is_small_and_as_good_as_its_report_says(task: MaskedTask, low: float, high: float) -> None:
    shipped = CHECKPOINTS / task.folder
    report = json.loads((shipped / "warmstart.json").read_text())
    assert (shipped / "model.safetensors").stat().st_size < 1.1e6
    assert low <= report["heldout"]["accuracy"] <= high
    model, tokenizer = (
        AutoModel.from_pretrained(shipped, trust_remote_code=True),
        AutoTokenizer.from_pretrained(shipped),
    )
    assert type(model).__name__ == "MaskedModel"
    assert (shipped / "masked_model.py").read_bytes() == Path(masked_model.__file__).read_bytes()
    held_out = split_problems(random.Random(report["seed"]), 800, 160, task.families).heldout
    room = Classroom(tokenizer, model.eval(), held_out, 0, task.places)
    measurement = room.measure(held_out[:60], samples=2, seed=1)
    assert measurement.accuracy == pytest.approx(report["heldout"]["accuracy"], abs=0.12)


def test_a_response_that_does_not_fit_the_canvas_is_named(short: tuple[Path, Report]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(short[0])
    problems = split_problems(random.Random(0), 1, 1).train
    room = Classroom(tokenizer, AutoModel.from_pretrained(short[0], trust_remote_code=True), problems, 0, 14)
    with pytest.raises(ValueError, match="does not fit 14 places"):
        room._canvas("word " * 40)
