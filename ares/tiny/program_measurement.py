"""How a tiny model fares at writing programs: pass@1, pass ratio, kinds of failure, and how many groups teach.

Covers: judging the responses of one measurement in the sandbox and counting. Does not cover: the rewards of a run
(rewards/), scoring beside generation, models and tasks that are not tiny.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from transformers import Qwen2ForCausalLM, Qwen2Tokenizer

from ares.tiny.measurement import Measurement, by_label, draw, measurement, share
from ares.tiny.programs import Problem, extract_program
from sandbox import Program, SandboxPool

NO_PROGRAM = "no_program"
"""Outcome of a response that is not one finished fenced block."""
BAD_REWARD = {NO_PROGRAM: -1.0, "syntax_error": -1.0, "runtime_error": -0.6, "timeout": -0.6, "memory": -0.6}
"""The piecewise reward where it does not depend on the pass ratio."""


@dataclass(frozen=True)
class Outcome:
    """What a response came to: one of the sandbox's error types or NO_PROGRAM, and the share of tests it passed."""

    kind: str
    pass_ratio: float

    @property
    def solved(self) -> bool:
        return self.kind == "accepted"

    @property
    def dense_reward(self) -> float:
        """−1 unreadable › −.6 fails when run › −.3 + 1.3·pass ratio (RLTF's adaptive feedback, piecewise)."""
        return BAD_REWARD.get(self.kind, -0.3 + 1.3 * self.pass_ratio)


@dataclass(frozen=True)
class ProgramMeasurement:
    """Figures of a sampled measurement, and of greedy decoding; `accuracy` is pass@1."""

    sampled: Measurement
    accuracy_by_family: dict[str, float]
    pass_ratio: float
    outcome_shares: dict[str, float]
    groups_with_spread: dict[str, float]
    """Share of prompts whose samples differ in reward, and so teach: by the sparse reward (solved) and the dense."""
    greedy_accuracy: float
    greedy_accuracy_by_level: dict[str, float]

    @property
    def accuracy(self) -> float:
        return self.sampled.accuracy


def judge(problems: Sequence[Problem], responses: Sequence[str | None], pool: SandboxPool) -> list[Outcome]:
    """Outcome of each response (None: unfinished) to its problem; equal programs are judged once.

    Raises RuntimeError where the sandbox itself failed, which is no outcome.
    """
    sources = [None if response is None else extract_program(response) for response in responses]
    jobs = {
        (source, problem.test_cases): None
        for problem, source in zip(problems, sources, strict=True)
        if source is not None
    }
    verdicts = dict(
        zip(jobs, pool.run(Program(source=source, tests=tests) for source, tests in jobs), strict=True)
    )
    outcomes = []
    for problem, source in zip(problems, sources, strict=True):
        if source is None:
            outcomes.append(Outcome(NO_PROGRAM, 0.0))
            continue
        verdict = verdicts[source, problem.test_cases]
        if verdict.pass_ratio is None:
            raise RuntimeError(f"the sandbox failed twice on an answer to {problem.prompt!r}: {verdict.tests[0].detail}")
        outcomes.append(Outcome(verdict.error_type, verdict.pass_ratio))
    return outcomes


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
    """Sample every prompt, decode it greedily once more, judge all of it. Raises SandboxUnavailable."""
    generator = torch.Generator().manual_seed(seed)
    drawn = draw(
        model, tokenizer, prompts,
        samples_per_prompt=samples_per_prompt, max_new_tokens=max_new_tokens, generator=generator,
    )  # fmt: skip
    greedy = draw(model, tokenizer, prompts, samples_per_prompt=1, max_new_tokens=max_new_tokens, generator=None)
    repeated = [problem for problem in problems for _ in range(samples_per_prompt)]
    with SandboxPool(num_workers=1) as pool:
        outcomes = judge([*repeated, *problems], [*drawn.texts, *greedy.texts], pool)
    outcomes, greedy_outcomes = outcomes[: len(repeated)], outcomes[len(repeated) :]

    solved = [outcome.solved for outcome in outcomes]
    accuracy = torch.tensor(solved, dtype=torch.float64).view(len(problems), samples_per_prompt)
    dense = torch.tensor([outcome.dense_reward for outcome in outcomes]).view(len(problems), samples_per_prompt)
    counts = Counter(outcome.kind for outcome in outcomes)
    levels = [str(problem.level) for problem in problems]
    greedy_solved = torch.tensor([outcome.solved for outcome in greedy_outcomes], dtype=torch.float64)
    return ProgramMeasurement(
        sampled=measurement(drawn, solved, levels),
        accuracy_by_family=by_label(accuracy.mean(1), [problem.family.name for problem in problems]),
        pass_ratio=sum(outcome.pass_ratio for outcome in outcomes) / len(outcomes),
        outcome_shares={kind: count / len(outcomes) for kind, count in sorted(counts.items())},
        groups_with_spread={"sparse": _spread(accuracy), "dense": _spread(dense)},
        greedy_accuracy=greedy_solved.mean().item(),
        greedy_accuracy_by_level=by_label(greedy_solved, levels),
    )


def _spread(rewards: torch.Tensor) -> float:
    return share(rewards.amax(1) > rewards.amin(1))
