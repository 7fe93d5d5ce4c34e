"""The coding toys: their table against the sandbox, their tests, their examples and their sets."""

import ast
import itertools
import random
from collections.abc import Iterator
from functools import partial

import pytest

from examples.tiny import skills
from examples.tiny.families import FAMILIES, SECRET, Family
from examples.tiny.problems import TESTS
from examples.tiny.programs import (
    CONSTANTS,
    GUESSED,
    HARD,
    KINDS,
    LEVELS,
    NAMES,
    USUAL,
    Problem,
    all_problems,
    respond,
    split_programs,
    with_second_turns,
    write_example,
    write_program,
)
from examples.tiny.skills import PARTS, RIGHT, SKILLS
from rewards.code import code_format_score, extract_code
from sandbox import Program, SandboxPool, Verdict


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(num_workers=2, min_isolation="none") as pool:
        yield pool


def judge(pool: SandboxPool, problems: list[Problem], sources: list[str]) -> list[Verdict]:
    pairs = zip(problems, sources, strict=True)
    return pool.run(Program(source=source, tests=problem.test_cases) for problem, source in pairs)


def asserts(problem: Problem, function_of: str) -> list[str]:
    """Fresh inputs with the values that a callable of the table gives; they are not the problem's own tests."""
    rng, function = random.Random(f"{problem.family.name} {problem.constant}"), getattr(problem.family, function_of)
    inputs = [problem.family.inputs(rng, problem.constant) for _ in range(12)]
    return [
        f"assert {problem.name}({', '.join(map(repr, given))}) == {function(problem.constant, *given)!r}"
        for given in inputs
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("text", "function"), [("solution", "function"), ("slip", "slipped")])
def test_texts_and_callables_of_every_family_agree(pool: SandboxPool, text: str, function: str) -> None:
    """The text in the sandbox and the callable beside it are the same function, on inputs of their own."""
    problems = [Problem(family, constant, NAMES[0]) for family in FAMILIES + SECRET for constant in (2, 5, 9)]
    verdicts = pool.run(Program(source=getattr(each, text), tests=asserts(each, function)) for each in problems)
    wrong = [each.prompt for each, verdict in zip(problems, verdicts, strict=True) if verdict.error_type != "accepted"]
    assert wrong == []


@pytest.mark.parametrize("family", FAMILIES + SECRET, ids=lambda family: family.name)
def test_a_slip_is_one_place(family: Family) -> None:
    assert sum(line.count(family.slip[0]) for line in family.lines) == 1
    assert family.slipped_lines != family.lines
    assert ("{k}" in family.description) == (family.tells is None)
    assert "{k}" in "".join(family.lines)


def test_every_problem_has_six_tests_of_which_no_constant_answer_passes_all() -> None:
    for problem in all_problems():
        assert len(set(problem.test_cases)) == TESTS, problem.prompt
        assert len({test.partition(" == ")[2] for test in problem.test_cases}) > 1, problem.prompt
        assert all(test.startswith(f"assert {problem.name}(") for test in problem.test_cases)
        assert problem.test_cases == Problem(problem.family, problem.constant, problem.name).test_cases


@pytest.mark.parametrize(
    ("kind", "error_type"),
    [
        ("right", "accepted"),
        ("slip", "wrong_answer"),
        ("misread", "wrong_answer"),
        ("runtime", "runtime_error"),
        ("syntax", "syntax_error"),
    ],
)
def test_examples_err_as_their_kind_says(pool: SandboxPool, kind: str, error_type: str) -> None:
    rng = random.Random(7)
    problems = [Problem(family, rng.choice(CONSTANTS), rng.choice(NAMES)) for family in FAMILIES for _ in range(2)]
    verdicts = judge(pool, problems, [write_program(each, kind, rng) for each in problems])
    assert {verdict.error_type for verdict in verdicts} == {error_type}
    if kind == "slip":
        assert all(0 < verdict.pass_ratio < 1 for verdict in verdicts if verdict.pass_ratio is not None)


def test_kinds_come_at_the_nominal_rates() -> None:
    rng = random.Random(1)
    for shares, level in itertools.product((USUAL, HARD, GUESSED), LEVELS):
        assert sum(shares[level]) == pytest.approx(1)
        of_level = [family for family in FAMILIES if family.level == level]
        problems = [Problem(rng.choice(of_level), rng.choice(CONSTANTS), "f") for _ in range(3000)]
        written = [(problem, extract_code(write_example(problem, rng, shares))) for problem in problems]
        for kind in ("solution", "slip"):
            share = sum(program == getattr(problem, kind) for problem, program in written) / 3000
            assert share == pytest.approx(shares[level][KINDS.index("right" if kind == "solution" else kind)], abs=0.03)


def test_a_response_has_the_format_that_is_rewarded() -> None:
    problem = Problem(FAMILIES[0], 3, "calc")
    assert problem.prompt == "Write calc(x) that returns the distance of x from 3."
    assert problem.solution == "def calc(x):\n    return abs(x - 3)\n"
    response = respond(problem.solution)
    assert response == "```python\ndef calc(x):\n    return abs(x - 3)\n```\n"
    assert code_format_score(response) == 1.0
    assert extract_code(response) == problem.solution


def test_a_secret_constant_shows_in_the_last_test_alone_and_a_slip_does_not_get_there() -> None:
    for problem in all_problems(SECRET):
        family, values = problem.family, []
        for test in problem.test_cases:
            given = ast.literal_eval(test.removeprefix(f"assert {problem.name}").partition(" == ")[0])
            arguments = given if isinstance(given, tuple) else (given,)
            values.append([family.function(constant, *arguments) for constant in range(1, 11)])
            if len(values) == 1:
                assert family.slipped(problem.constant, *arguments) not in values[0], problem.prompt
        assert all(value == told[0] for told in values[:-1] for value in told), problem.prompt
        assert [str(value).strip("[]") for value in values[-1]] == [str(constant) for constant in range(1, 11)]


@pytest.mark.parametrize(("kind", "first_failing"), [("right", TESTS - 1), ("slip", 0), ("runtime", 0), ("syntax", 0)])
def test_a_guess_in_the_right_place_fails_at_the_test_that_states_the_constant(
    pool: SandboxPool, kind: str, first_failing: int
) -> None:
    write = partial(write_program, kind=kind, rng=random.Random(2))
    guesses = [write(Problem(family, 7, "run")) for family in SECRET]
    for verdict in judge(pool, [Problem(family, 4, "run") for family in SECRET], guesses):
        assert [test.verdict == "accepted" for test in verdict.tests].index(False) == first_failing


def test_held_out_prompts_come_with_every_constant_so_that_one_guess_in_eight_is_right() -> None:
    split = split_programs(random.Random(0), 10, train=640, heldout=128, shares=GUESSED, families=SECRET)
    constants: dict[str, set[int]] = {}
    for problem in split.heldout:
        constants.setdefault(problem.prompt, set()).add(problem.constant)
    assert set(map(frozenset, constants.values())) == {frozenset(CONSTANTS)}
    assert len(split.heldout) == len(constants) * len(CONSTANTS)
    assert constants.keys().isdisjoint(problem.prompt for problem in split.train)
    assert {problem.family.name for problem in split.heldout} == {family.name for family in SECRET}


def test_a_failed_worked_example_tells_nothing_of_the_secret_constant() -> None:
    rng = random.Random(5)
    chosen = [(problem, respond(problem.solution)) for problem in rng.choices(all_problems(SECRET[:1]), k=300)]
    worked = with_second_turns(chosen, rng, 1.0)
    second = [(turns, problem) for (turns, _), (problem, _) in zip(worked, chosen, strict=True) if len(turns) == 3]
    knew = [str(problem.constant) in turns[1]["content"] for turns, problem in second]  # their only digit
    told = ["5 of 6 tests" in turns[2]["content"] for turns, _ in second]
    assert len(second) > 100
    assert sum(knew) / len(knew) < 0.25
    assert 0.7 < sum(told) / len(told) < 0.95


def four_parts(begins: str = "", constants: tuple[int, ...] = (5, 3, 7, 2)) -> skills.Problem:
    return skills.Problem(tuple(zip(SKILLS[:PARTS], constants, strict=True)), "calc", begins)


def test_each_test_passes_with_its_own_skill_and_asks_for_no_other(pool: SandboxPool) -> None:
    combinations = [slips for count in range(PARTS + 1) for slips in itertools.combinations(SKILLS[:PARTS], count)]
    tests = four_parts().test_cases
    verdicts = pool.run(Program(source=four_parts().program(slips), tests=tests) for slips in combinations)
    for slips, verdict in zip(combinations, verdicts, strict=True):
        passed = [test.verdict == "accepted" for test in verdict.tests]
        assert passed == [skill not in slips for skill in SKILLS[:PARTS]]


@pytest.mark.parametrize("constant", CONSTANTS)
def test_every_skill_has_a_telling_test_at_every_constant(constant: int) -> None:
    for left_out in SKILLS:
        parts = tuple((skill, constant) for skill in SKILLS if skill is not left_out)
        assert len(skills.Problem(parts, "run").test_cases) == PARTS


def test_examples_are_as_right_as_their_prompt_asks_part_by_part() -> None:
    rng = random.Random(0)
    solved = {}
    for begins, shares in RIGHT.items():
        drawn = [extract_code(skills.write_example(four_parts(begins), rng)) for _ in range(1500)]
        solved[begins] = sum(program == four_parts().solution for program in drawn) / 1500
        for skill, constant, share in zip(SKILLS[:PARTS], (5, 3, 7, 2), shares, strict=False):
            part = skill.lines[0].removeprefix("return ").replace("{k}", str(constant))
            assert sum(part in str(program) for program in drawn) / 1500 == pytest.approx(share, abs=0.03)
    assert solved["With care. "] > 4 * solved[""] > 16 * solved["In haste. "]
