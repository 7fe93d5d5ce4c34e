"""The generated task of chains: what its problems, examples and split promise."""

import itertools
import json
import random
import re
from collections import defaultdict

import pytest

from examples.tiny import CHECKPOINTS
from examples.tiny.problems.reasoning import (
    MOST_CHECKS,
    OPERATIONS,
    Problem,
    checks_in,
    extract_answer,
    is_correct,
    sample_problem,
    split_problems,
    worked_example,
)
from examples.tiny.problems.sets import Split


@pytest.fixture(scope="module")
def split() -> Split[Problem]:
    return split_problems(random.Random(3), examples=8000, train=800, heldout=160)


def test_an_answer_is_the_sum_and_no_step_leaves_the_digits() -> None:
    assert Problem(2, 5, (("b", "+", 2), ("c", "-", 3))).answer == 4
    assert Problem(2, 5, (("b", "+", 2), ("c", "-", 3))).prompt == "5b+2c-3"
    rng = random.Random(0)
    for _ in range(500):
        problem = sample_problem(rng, 4)
        sums = itertools.accumulate(
            (operand if sign == "+" else -operand for _, sign, operand in problem.operations), initial=problem.first
        )
        assert all(0 <= value <= 9 for value in sums)


@pytest.mark.parametrize("level", OPERATIONS)
def test_levels_have_their_lengths_and_names_that_follow_one_another(level: int) -> None:
    rng = random.Random(level)
    for _ in range(200):
        problem = sample_problem(rng, level)
        names = [name for name, _, _ in problem.operations]
        assert len(names) == OPERATIONS[level]
        assert [ord(name) - ord(names[0]) for name in names] == list(range(len(names)))


def test_no_prompt_is_in_two_of_the_sets(split: Split[Problem]) -> None:
    prompts = [problem.prompt for problem in (*split.heldout, *split.train)]
    assert len(set(prompts)) == len(prompts) == 960
    assert {problem.prompt for problem, _ in split.examples}.isdisjoint(prompts)
    for part in (split.heldout, split.train):
        counts = [sum(problem.level == level for problem in part) for level in OPERATIONS]
        assert len(set(counts)) == 1


def test_checks_are_as_frequent_at_every_level_and_repair_the_long_chains(split: Split[Problem]) -> None:
    checks, right = defaultdict(list), defaultdict(list)
    for problem, response in split.examples:
        count = checks_in(response)
        checks[problem.level].append(count)
        if extract_answer(response) is not None:  # a response without a box is wrong whatever it holds
            right[problem.level, min(count, 1)].append(is_correct(problem, response))
    share = {key: sum(of) / len(of) for key, of in right.items()}
    for level in OPERATIONS:
        assert sum(checks[level]) / len(checks[level]) == pytest.approx(0.5 + 0.25 + 0.125, abs=0.08)
        assert max(checks[level]) == MOST_CHECKS
        assert share[level, 1] > 0.8
    assert share[1, 0] > 0.94
    assert share[4, 0] < share[2, 0] - 0.2 < share[1, 0] - 0.4


def test_a_check_works_the_chain_step_by_step() -> None:
    problem = Problem(2, 5, (("b", "+", 2), ("c", "-", 3)))
    checked = next(
        text
        for seed in range(99)
        if " no 4 </think> \\boxed{4}" in (text := worked_example(problem, random.Random(seed)))
    )
    assert " check 5b+2=7;7c-3=4; no 4 </think>" in checked
    assert is_correct(problem, checked)
    assert not is_correct(problem, checked.replace("\\boxed{4}", "4"))


def test_a_set_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValueError, match="level 1 has fewer than 4000 different prompts"):
        split_problems(random.Random(0), examples=0, train=0, heldout=16000)


def test_the_shipped_warm_start_checks_alike_and_needs_it_for_long_chains() -> None:
    measured = json.loads((CHECKPOINTS / "reason" / "warmstart.json").read_text())["heldout"]
    checks = measured["checks_by_level"].values()
    assert max(checks) - min(checks) < 0.3
    by_checks = measured["accuracy_by_checks"]
    for level in "34":
        assert by_checks[level]["1"] > by_checks[level]["0"] + 0.2
    assert measured["length_by_level"]["4"] > 2 * measured["length_by_level"]["1"]


def test_the_shipped_problems_are_those_of_the_split_and_each_level_has_a_file() -> None:
    def rows(name: str) -> list[dict[str, str]]:
        return [json.loads(line) for line in (CHECKPOINTS / "reason" / name).read_text().splitlines()]

    heldout = rows("heldout.jsonl")
    by_level = [row for level in OPERATIONS for row in rows(f"heldout-{level}.jsonl")]
    assert sorted(row["prompt"] for row in by_level) == sorted(row["prompt"] for row in heldout)
    assert {row["prompt"] for row in heldout}.isdisjoint(row["prompt"] for row in rows("train.jsonl"))
    for row in heldout:
        numbers = re.sub("[a-p]", "", row["prompt"])
        assert eval(numbers) == int(row["answer"])
