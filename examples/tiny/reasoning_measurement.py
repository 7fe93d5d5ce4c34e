"""Measure a model on chains of sums: accuracy and length by level, with and without checks, sampled and greedy.

Covers: the figures in the report of tiny-reason's warm start. Does not cover: drawing responses
(examples/tiny/measurement.py).
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

from examples.tiny.measurement import Measurement, Responses, draw, measurement
from examples.tiny.problems.reasoning import Problem, checks_in, is_correct

SAMPLES = 8


@dataclass(frozen=True)
class ReasoningMeasurement(Measurement):
    """The same, with figures by level: lengths in tokens, and accuracies by how often a response checks."""

    length_by_level: dict[str, float]
    checks_by_level: dict[str, float]
    accuracy_by_checks: dict[str, dict[str, float]]
    """Level → number of checks → accuracy."""
    greedy_accuracy_by_level: dict[str, float]
    greedy_length_by_level: dict[str, float]


def measure_reasoning(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    prompts: Sequence[Sequence[int]],
    problems: Sequence[Problem],
    *,
    max_new_tokens: int,
) -> ReasoningMeasurement:
    """Sample every prompt at temperature 1, and decode it greedily. An unfinished response is wrong."""
    drawn, greedy = (
        draw(model, tokenizer, prompts, samples_per_prompt=count, max_new_tokens=max_new_tokens, generator=generator)
        for count, generator in ((SAMPLES, torch.Generator().manual_seed(0)), (1, None))
    )
    right = _right(drawn, problems)
    by_checks: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row, text in enumerate(drawn.texts):
        by_checks[_level(row, drawn, problems)][str(checks_in(text or ""))].append(right[row])
    return ReasoningMeasurement(
        **vars(measurement(drawn, right, [str(problem.level) for problem in problems])),
        length_by_level=_mean_by_level(drawn.lengths, drawn, problems),
        checks_by_level=_mean_by_level([checks_in(text or "") for text in drawn.texts], drawn, problems),
        accuracy_by_checks={
            level: {checks: sum(of) / len(of) for checks, of in sorted(counts.items())}
            for level, counts in sorted(by_checks.items())
        },
        greedy_accuracy_by_level=_mean_by_level(_right(greedy, problems), greedy, problems),
        greedy_length_by_level=_mean_by_level(greedy.lengths, greedy, problems),
    )


def _right(responses: Responses, problems: Sequence[Problem]) -> list[bool]:
    samples = len(responses.texts) // len(problems)
    return [text is not None and is_correct(problems[row // samples], text) for row, text in enumerate(responses.texts)]


def _level(row: int, responses: Responses, problems: Sequence[Problem]) -> str:
    return str(problems[row * len(problems) // len(responses.texts)].level)


def _mean_by_level(values: Sequence[float], responses: Responses, problems: Sequence[Problem]) -> dict[str, float]:
    """Mean over responses of each level."""
    by_level: dict[str, list[float]] = defaultdict(list)
    for row, value in enumerate(values):
        by_level[_level(row, responses, problems)].append(float(value))
    return {level: sum(of) / len(of) for level, of in sorted(by_level.items())}
