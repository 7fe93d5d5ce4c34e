"""Definitions of the tiny tasks: their problems, their worked examples, how a model is measured.

Covers: tiny-math, tiny-reason, tiny-code, tiny-code-hard, tiny-code-feedback, tiny-code-secret,
tiny-code-skills. Does not cover: training on them (examples/tiny/warmstart.py, and profiles).
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

from examples.tiny import second_turns
from examples.tiny.measurement import Measurement, measure
from examples.tiny.problems import arithmetic, programs, reasoning, skills
from examples.tiny.problems.families import FAMILIES, SECRET, Family
from examples.tiny.problems.sets import Split
from examples.tiny.program_measurement import ProgramMeasurement, measure_programs
from examples.tiny.reasoning_measurement import ReasoningMeasurement, measure_reasoning


@dataclass(frozen=True)
class TinyTask:
    """One task. Problems have a `prompt` and a `row()`; the rest is in these fields."""

    name: str
    folder: str
    """Folder of the shipped result below examples/tiny/checkpoints."""
    split: Callable[[random.Random, int, int, int], Split[Any]]
    """(rng, examples, train, heldout) → Split."""
    tokenizer_texts: Callable[[Split[Any]], list[str]]
    """Texts that the tokenizer is trained on."""
    measure: Callable[..., Measurement | ProgramMeasurement | ReasoningMeasurement]
    """(model, tokenizer, encoded prompts, problems, max_new_tokens=…) → figures at temperature 1."""
    whole_words: tuple[str, ...]
    vocab_size: int
    train_problems: int
    heldout_problems: int
    max_new_tokens: int
    steps: int
    """Steps of the warm start."""
    batch_size: int = 64
    """Examples of each."""
    second_turns: float = 0.0
    """Share of worked examples of second turns (examples/tiny/second_turns.py) that are right; 0: no second turns."""
    copies: bool = False
    """Whether attention starts out copying what it looks at (examples/tiny/model.py)."""
    writes_problems: bool = True
    """False if the task uses another one's problem files."""
    heldout_by_level: bool = False
    """Whether to write a held-out file per level, too: heldout-1.jsonl and so on."""


def tokenizer_texts_of_examples(split: Split[Any]) -> list[str]:
    """Prompts and responses of the first examples."""
    return [text for problem, response in split.examples[:4000] for text in (problem.prompt, response)]


def tokenizer_texts_of_programs(families: Sequence[Family], verdicts: bool, _: Split[Any]) -> list[str]:
    """Prompts, solutions and slips of every problem: the same tokens whatever the quality of the examples."""
    texts = [
        text
        for problem in programs.all_problems(families)
        for text in (problem.prompt, programs.respond(problem.solution), programs.respond(problem.slip))
    ]
    return [*texts, *second_turns.TOKENIZER_TEXTS * 400] if verdicts else texts


def _measure_arithmetic(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    prompts: Sequence[Sequence[int]],
    problems: Sequence[arithmetic.Problem],
    *,
    max_new_tokens: int,
) -> Measurement:
    graders = [partial(arithmetic.is_correct, problem) for problem in problems]
    levels = [str(problem.level) for problem in problems]
    return measure(model, tokenizer, prompts, graders, levels, max_new_tokens=max_new_tokens)


def _split_arithmetic(rng: random.Random, examples: int, train: int, heldout: int) -> Split[arithmetic.Problem]:
    return arithmetic.split_problems(rng, examples=examples, train=train, heldout=heldout)


def _split_reasoning(rng: random.Random, examples: int, train: int, heldout: int) -> Split[reasoning.Problem]:
    return reasoning.split_problems(rng, examples=examples, train=train, heldout=heldout)


def _split_skills(rng: random.Random, examples: int, train: int, heldout: int) -> Split[skills.Problem]:
    return skills.split_problems(rng, examples=examples, train=train, heldout=heldout)


def _split_programs(
    shares: programs.Shares, rng: random.Random, examples: int, train: int, heldout: int,
    families: Sequence[Family] = FAMILIES,
) -> Split[programs.Problem]:  # fmt: skip
    return programs.split_problems(
        rng, examples=examples, train=train, heldout=heldout, shares=shares, families=families
    )


MATH = TinyTask(
    name="tiny-math",
    folder="math",
    split=_split_arithmetic,
    tokenizer_texts=tokenizer_texts_of_examples,
    measure=_measure_arithmetic,
    whole_words=arithmetic.WHOLE_WORDS,
    vocab_size=320,
    train_problems=1000,
    heldout_problems=160,
    max_new_tokens=80,
    steps=1000,
)
REASON = TinyTask(
    name="tiny-reason",
    folder="reason",
    split=_split_reasoning,
    tokenizer_texts=tokenizer_texts_of_examples,
    measure=measure_reasoning,
    whole_words=reasoning.WHOLE_WORDS,
    vocab_size=300,
    train_problems=800,
    heldout_problems=160,
    max_new_tokens=160,
    steps=1300,
    batch_size=32,
    heldout_by_level=True,
)
CODE = TinyTask(
    name="tiny-code",
    folder="code",
    split=partial(_split_programs, programs.USUAL),
    tokenizer_texts=partial(tokenizer_texts_of_programs, FAMILIES, False),
    measure=measure_programs,
    whole_words=programs.WHOLE_WORDS,
    vocab_size=512,
    train_problems=660,
    heldout_problems=176,
    max_new_tokens=80,
    steps=500,
)
CODE_HARD = replace(
    CODE,
    name="tiny-code-hard",
    folder="code-hard",
    split=partial(_split_programs, programs.HARD),
    writes_problems=False,
)
"""The problems of tiny-code with few right worked examples: for comparing rewards."""
CODE_FEEDBACK = replace(
    CODE,
    name="tiny-code-feedback",
    folder="code-feedback",
    tokenizer_texts=partial(tokenizer_texts_of_programs, FAMILIES, True),
    vocab_size=544,
    steps=700,
    second_turns=0.7,
    writes_problems=False,
)
"""The problems of tiny-code for a model that has seen second turns, with the first verdict in the prompt."""
CODE_SECRET = replace(
    CODE_FEEDBACK,
    name="tiny-code-secret",
    folder="code-secret",
    split=partial(_split_programs, programs.GUESSED, families=SECRET),
    tokenizer_texts=partial(tokenizer_texts_of_programs, SECRET, True),
    train_problems=640,
    heldout_problems=128,
    steps=400,
    second_turns=0.15,
    copies=True,
    writes_problems=True,
)
"""Functions whose constant a failing test alone states: what second turns are for. After 700 steps from random matrices
one constant in five was read off it, where one in eight is a guess."""
CODE_SKILLS = replace(
    CODE,
    name="tiny-code-skills",
    folder="code-skills",
    split=_split_skills,
    tokenizer_texts=tokenizer_texts_of_examples,
    whole_words=skills.WHOLE_WORDS,
    train_problems=480,
    heldout_problems=128,
)
"""Functions of four parts, one a test: what a reward for partial passes is for."""
TASKS = {task.name: task for task in (MATH, REASON, CODE, CODE_HARD, CODE_FEEDBACK, CODE_SECRET, CODE_SKILLS)}
