"""Worked examples of a second turn: a program that failed, its verdict, and a better one.

Covers: conversations for the warm starts of tiny-code-feedback and tiny-code-secret. Does not cover: second turns in a
run (ares/step/second_turn.py), whose prompts have the same form.
"""

import random
from collections.abc import Sequence

from examples.tiny.problems.programs import KINDS, Problem, erring_program, respond
from examples.tiny.program_measurement import judge
from rewards.feedback import execution_feedback
from sandbox import SandboxPool

Conversation = list[dict[str, str]]
SHARE = 0.5
"""Share of the examples that are second turns."""
GUESSED = 0.8
"""Share of failures with a secret constant that are right except for the guess."""
ENDINGS = ("wrong answer", "runtime error")
TOKENIZER_TEXTS = (
    *(f"{passed} of 6 tests passed. {ending}: assert" for passed in range(6) for ending in ENDINGS),
    "0 of 6 tests passed. syntax error: assert",
)


def with_second_turns(
    examples: Sequence[tuple[Problem, str]], right: float, rng: random.Random
) -> list[tuple[Conversation, str]]:
    """(conversation, response) to imitate: first turns, and second turns whose first program really failed as told.

    right: share of the second turns that are right; the others err as first turns do.
    """
    continued = [rng.random() < SHARE for _ in examples]
    problems = [problem for (problem, _), again in zip(examples, continued, strict=True) if again]
    failures = [respond(_failed(problem, rng)) for problem in problems]
    with SandboxPool(1) as pool:
        verdicts = judge(problems, failures, pool)
    second = iter(zip(failures, verdicts, strict=True))
    conversations: list[tuple[Conversation, str]] = []
    for (problem, response), again in zip(examples, continued, strict=True):
        asked = {"role": "user", "content": problem.prompt}
        if not again:
            conversations.append(([asked], response))
            continue
        failed, verdict = next(second)
        outcomes = [test.verdict for test in verdict.tests]
        if all(outcome == "accepted" for outcome in outcomes):  # a slip that no test notices is no failure
            conversations.append(([asked], response))
            continue
        told = {"role": "user", "content": execution_feedback(problem.test_cases, outcomes)}
        answer = respond(problem.solution) if rng.random() < right else response
        conversations.append(([asked, {"role": "assistant", "content": failed}, told], answer))
    return conversations


def _failed(problem: Problem, rng: random.Random) -> str:
    """A program that errs or, if the constant is secret, guesses it."""
    guess = problem.guessed(rng)
    kind = "right" if guess is not problem and rng.random() < GUESSED else rng.choice(KINDS[1:])
    return erring_program(guess, kind, rng)
