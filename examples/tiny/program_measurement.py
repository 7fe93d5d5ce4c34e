"""Measure a tiny model that writes programs: pass@1, pass ratio, kinds of failure, groups with a gradient.

Covers: judging the responses of one measurement in the sandbox. Does not cover: the rewards of a run
(rewards/), scoring beside generation, models and tasks that are not tiny.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

from examples.tiny.measurement import Measurement, Responses, by_label, draw, measurement
from examples.tiny.problems.programs import Problem, extract_program
from rewards.code import no_code_verdict
from rewards.shaping import CodeOutcomes, RewardDesign, shape_code_rewards
from sandbox import Program, SandboxPool, Verdict


@dataclass(frozen=True)
class ProgramMeasurement:
    """Figures of sampled and of greedy decoding; `accuracy` is pass@1."""

    sampled: Measurement
    accuracy_by_family: dict[str, float]
    pass_ratio: float
    outcome_shares: dict[str, float]
    """By error type; a response that is not one finished fenced block counts as a syntax error."""
    groups_with_spread: dict[str, float]
    """Share of prompts whose samples differ in reward, and so give a gradient: by the sparse and the dense reward."""
    greedy_accuracy: float
    greedy_accuracy_by_level: dict[str, float]

    @property
    def accuracy(self) -> float:
        return self.sampled.accuracy


def judge(problems: Sequence[Problem], responses: Sequence[str | None], pool: SandboxPool) -> list[Verdict]:
    """Verdict on each response (None: unfinished) to its problem; equal programs are judged once.

    Raises RuntimeError if the sandbox itself failed.
    """
    sources = [extract_program(response or "") for response in responses]
    jobs = [
        (source, problem.test_cases) for problem, source in zip(problems, sources, strict=True) if source is not None
    ]
    distinct = list(dict.fromkeys(jobs))
    verdict_of = dict(
        zip(distinct, pool.run(Program(source=source, tests=tests) for source, tests in distinct), strict=True)
    )
    verdicts = [
        no_code_verdict(len(problem.test_cases)) if source is None else verdict_of[source, problem.test_cases]
        for problem, source in zip(problems, sources, strict=True)
    ]
    for problem, verdict in zip(problems, verdicts, strict=True):
        if verdict.pass_ratio is None:
            raise RuntimeError(
                f"the sandbox failed twice on an answer to {problem.prompt!r}: {verdict.tests[0].detail}"
            )
    return verdicts


def measure_programs(
    model: Qwen2ForCausalLM,
    tokenizer: Qwen2Tokenizer,
    prompts: Sequence[Sequence[int]],
    problems: Sequence[Problem],
    *,
    samples_per_prompt: int = 8,
    max_new_tokens: int,
    seed: int = 0,
) -> ProgramMeasurement:
    """Sample every prompt, also decode it greedily, and judge all responses. Raises SandboxUnavailable."""
    generator = torch.Generator().manual_seed(seed)
    sampled = draw(
        model, tokenizer, prompts,
        samples_per_prompt=samples_per_prompt, max_new_tokens=max_new_tokens, generator=generator,
    )  # fmt: skip
    greedy = draw(model, tokenizer, prompts, samples_per_prompt=1, max_new_tokens=max_new_tokens, generator=None)
    repeated = [problem for problem in problems for _ in range(samples_per_prompt)]
    with SandboxPool(num_workers=1) as pool:
        verdicts = judge(repeated, sampled.texts, pool)
        greedy_verdicts = judge(problems, greedy.texts, pool)
    return _figures(problems, sampled, verdicts, greedy_verdicts)


def _figures(
    problems: Sequence[Problem], sampled: Responses, verdicts: list[Verdict], greedy_verdicts: list[Verdict]
) -> ProgramMeasurement:
    outcomes = CodeOutcomes.from_verdicts(verdicts, np.zeros(len(verdicts), dtype=bool))
    groups = (len(problems), len(verdicts) // len(problems))
    levels = [str(problem.level) for problem in problems]
    solved_greedily = torch.tensor([verdict.error_type == "accepted" for verdict in greedy_verdicts]).double()
    return ProgramMeasurement(
        sampled=measurement(sampled, outcomes.accepted.tolist(), levels),
        accuracy_by_family=by_label(
            torch.from_numpy(outcomes.accepted.reshape(groups).mean(1)), [problem.family.name for problem in problems]
        ),
        pass_ratio=float(outcomes.pass_ratio.mean()),
        outcome_shares={
            kind: count / len(verdicts) for kind, count in sorted(Counter(outcomes.error_type.tolist()).items())
        },
        groups_with_spread={
            name: float((np.ptp(shape_code_rewards(design, outcomes).reshape(groups), axis=1) > 0).mean())
            for name, design in (("sparse", RewardDesign.SPARSE), ("dense", RewardDesign.DENSE_LINEAR))
        },
        greedy_accuracy=solved_greedily.mean().item(),
        greedy_accuracy_by_level=by_label(solved_greedily, levels),
    )
