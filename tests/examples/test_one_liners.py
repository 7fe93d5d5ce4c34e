"""The functions of one line: tests tell errors from solutions, examples err as often as they should."""

import random
from collections import Counter

import pytest

from examples.tiny.one_liners import (
    CONSTANTS,
    FAMILIES,
    PAIRS,
    RIGHT,
    Problem,
    respond,
    split_one_liners,
    write_example,
    write_program,
)
from examples.tiny.problems import TESTS
from rewards.code import code_format_score
from sandbox import Program, SandboxPool


@pytest.mark.slow
def test_solutions_pass_and_every_usual_error_fails() -> None:
    """Through the sandbox: what the families' texts say is what their callables compute."""
    programs, right = [], []
    for place, of in enumerate(FAMILIES + PAIRS):
        problem = Problem(of, 3 + place % 6, "calc", of.arguments[place % 4])
        assert len(set(problem.test_cases)) == TESTS
        assert problem.test_cases == Problem(of, problem.constant, "calc", problem.argument).test_cases
        like = [other for other in (PAIRS if of in PAIRS else FAMILIES) if other.arguments == of.arguments]
        variants = {(family, problem.constant) for family in like} | {(of, constant) for constant in CONSTANTS}
        for family, constant in sorted(variants, key=lambda pair: (pair[0].name, pair[1])):
            source = write_program(problem.name, problem.argument, family, constant)
            programs.append(Program(source=source, tests=problem.test_cases))
            right.append((family, constant) == (of, problem.constant))
    with SandboxPool(num_workers=1) as pool:
        verdicts = pool.run(programs)
    assert [verdict.error_type == "accepted" for verdict in verdicts] == right
    assert sum(right) == len(FAMILIES + PAIRS)


def test_worked_examples_are_right_as_often_as_their_level_says() -> None:
    rng = random.Random(0)
    problems = [problem for problem, _ in split_one_liners(rng, families=FAMILIES + PAIRS).examples]
    seen: Counter[int] = Counter()
    right: Counter[int] = Counter()
    for problem in rng.choices(problems, k=9000):
        example = write_example(problem, rng)
        seen[problem.level] += 1
        right[problem.level] += example == respond(problem.solution)
        assert code_format_score(example) in (0.5, 1.0)  # in form at least, and often no Python
    for level, share in RIGHT.items():
        assert right[level] / seen[level] == pytest.approx(share, abs=0.03)
