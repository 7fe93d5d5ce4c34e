import random
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from safetensors.torch import load_file

from examples.tiny import CHECKPOINTS
from examples.tiny.problems.arithmetic import extract_answer
from examples.tiny.problems.drawn_pictures import draw
from examples.tiny.problems.pictures import LEVELS, sample_problem, split_problems, taught
from examples.tiny.vision_warmstart import LESSONS, warmstart
from rewards.aepo import format_reward


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bits(tmp_path: Path) -> None:
    """Two steps a lesson: the whole of it takes minutes."""
    short = tuple(replace(lesson, steps=2, batch_size=4) for lesson in LESSONS)
    reports = [warmstart(tmp_path / name, seed=3, lessons=short) for name in ("one", "other")]
    assert reports[0] == reports[1]
    files = {path.name for path in (tmp_path / "one").iterdir()}
    assert files >= {
        "model.safetensors",
        "tokenizer.json",
        "preprocessor_config.json",
        "train.parquet",
        "heldout.parquet",
    }
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes(), name
    moved = load_file(tmp_path / "one" / "model.safetensors")
    assert any("visual" in name for name in moved)


def test_worked_examples_err_but_are_mostly_right() -> None:
    pairs = taught(random.Random(0), 2000)
    right = [extract_answer(response) == problem.answer for problem, response in pairs]
    assert 0.45 < sum(right) / len(right) < 0.65
    assert 0.85 < sum(format_reward(response) for _, response in pairs) / len(pairs) < 1


def test_examples_of_the_first_lesson_are_right() -> None:
    pairs = taught(random.Random(0), 200, errs=False)
    assert all(extract_answer(response) == problem.answer for problem, response in pairs)


def test_answers_follow_from_what_is_shown() -> None:
    rng = random.Random(1)
    for level in LEVELS:
        problem = sample_problem(rng, level, heldout=False)
        if level == 4:
            assert problem.answer == int(problem.shown[int(problem.asked) - 1])
        elif level == 3:
            other = {"r": "b", "b": "r"}[problem.asked]
            assert problem.answer == problem.shown.count(problem.asked) - problem.shown.count(other) >= 0
        else:
            counted = problem.asked or "rb"
            assert problem.answer == sum(mark in counted for mark in problem.shown) > 0


def test_a_picture_is_all_that_its_key_says() -> None:
    assert draw("rr.b...b.-1").tobytes() == draw("rr.b...b.-1").tobytes() != draw("rr.b...b.-2").tobytes()
    assert draw("351-2").size == (24, 24)
    with pytest.raises(ValueError, match="no key of a tiny picture"):
        draw("rrx-1")


def test_the_shipped_problems_are_those_that_the_seed_gives_and_hold_out_whole_pictures() -> None:
    split = split_problems(random.Random(0), train=1000, heldout=160)
    for name, problems in (("train", split.train), ("heldout", split.heldout)):
        shipped = pd.read_parquet(CHECKPOINTS / "vision" / f"{name}.parquet")
        assert shipped["prompt"].tolist() == [problem.prompt for problem in problems]
        assert [row.tolist() for row in shipped["images"]] == [[problem.picture] for problem in problems]
        assert shipped["level"].value_counts().to_dict() == dict.fromkeys(LEVELS, len(problems) // 4)
    assert {problem.shown for problem in split.train}.isdisjoint(problem.shown for problem in split.heldout)
