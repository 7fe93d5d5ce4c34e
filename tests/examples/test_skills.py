"""Functions of four parts: a test a skill, whatever else is wrong, and examples as careful as they were asked to be."""

import itertools
import json
import random
from collections import Counter

import pytest

from examples.tiny import CHECKPOINTS
from examples.tiny.problems.programs import CONSTANTS, extract_program
from examples.tiny.problems.skills import PARTS, RIGHT, SKILLS, Problem, split_problems, worked_example
from examples.tiny.tasks import CODE_SKILLS
from sandbox import Program, SandboxPool

SHIPPED = CHECKPOINTS / "code-skills"


def problem(begins: str = "", constants: tuple[int, ...] = (5, 3, 7, 2)) -> Problem:
    return Problem(tuple(zip(SKILLS[:PARTS], constants, strict=True)), "calc", begins)


def test_a_prompt_names_each_part_with_its_constant() -> None:
    assert problem("In haste. ").prompt == (
        "In haste. Write calc(x) that returns the distance of x from 5, tells whether x is at least 3, "
        "limits x to at most 7, returns how often 2 fits into x."
    )
    assert problem().solution == "def calc(x):\n    return [abs(x - 5), x >= 3, min(x, 7), x // 2]\n"
    assert problem().test_cases == problem("In haste. ").test_cases
    assert problem().family.name == "divisible"


def test_each_test_passes_with_its_own_skill_and_asks_for_no_other() -> None:
    combinations = [slips for count in range(PARTS + 1) for slips in itertools.combinations(SKILLS[:PARTS], count)]
    programs = [Program(source=problem().program(slips), tests=problem().test_cases) for slips in combinations]
    with SandboxPool(num_workers=1) as pool:
        verdicts = pool.run(programs)
    for slips, verdict in zip(combinations, verdicts, strict=True):
        assert [test.verdict == "accepted" for test in verdict.tests] == [
            skill not in slips for skill in SKILLS[:PARTS]
        ]


@pytest.mark.parametrize("constant", CONSTANTS)
def test_every_skill_has_a_telling_test_at_every_constant(constant: int) -> None:
    for left_out in SKILLS:
        parts = tuple((skill, constant) for skill in SKILLS if skill is not left_out)
        assert len(Problem(parts, "run").test_cases) == PARTS


def test_examples_are_as_right_as_their_prompt_asks_part_by_part() -> None:
    rng = random.Random(0)
    solved = {}
    for begins, shares in RIGHT.items():
        drawn = [extract_program(worked_example(problem(begins), rng)) for _ in range(3000)]
        solved[begins] = sum(program == problem().solution for program in drawn) / 3000
        for skill, constant, share in zip(SKILLS[:PARTS], (5, 3, 7, 2), shares, strict=False):
            part = skill.lines[0].removeprefix("return ").replace("{k}", str(constant))
            assert sum(part in str(program) for program in drawn) / 3000 == pytest.approx(share, abs=0.03)
    assert solved["With care. "] > 4 * solved[""] > 16 * solved["In haste. "]


def test_held_out_problems_are_taught_under_no_beginning() -> None:
    split = split_problems(random.Random(1), examples=3000, train=300, heldout=120)
    measured = {each.prompt for each in split.heldout}
    assert len(measured) == 120
    assert measured.isdisjoint(each.prompt for each in split.train)
    assert measured.isdisjoint(each.prompt.removeprefix(each.begins) for each, _ in split.examples)
    assert Counter(each.begins for each, _ in split.examples).keys() == RIGHT.keys()
    assert {each.begins for each in split.train + split.heldout} == {""}


def test_the_shipped_problems_are_those_that_the_seed_gives_and_the_start_solves_few() -> None:
    split = CODE_SKILLS.split(random.Random(0), 0, CODE_SKILLS.train_problems, CODE_SKILLS.heldout_problems)
    for name, problems in (("train", split.train), ("heldout", split.heldout)):
        rows = [json.loads(line) for line in (SHIPPED / f"{name}.jsonl").read_text().splitlines()]
        assert [row["prompt"] for row in rows] == [each.prompt for each in problems]
        assert [tuple(row["test_cases"]) for row in rows] == [each.test_cases for each in problems]
    heldout = json.loads((SHIPPED / "warmstart.json").read_text())["heldout"]
    assert 0.03 <= heldout["sampled"]["accuracy"] <= 0.12
    assert heldout["groups_with_spread"]["dense"] > 0.95
    assert heldout["groups_with_spread"]["sparse"] < 0.65
    assert heldout["outcome_shares"].get("syntax_error", 0.0) < 0.1
