"""Whole steps with learner and engine on one device, without Prefect and Ray; and, with both, a run that is killed.

A step is that of the flows: sample, grade, measure, shape, update, hand over. Steps are only timed; whether runs learn
is in docs/measurements/learning.md.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoTokenizer

from algorithms.keys import derive_seed
from ares.config import Config, load
from ares.engines import Request, SamplingSettings, TransformersEngine
from ares.grading import load_grader
from ares.learner import Learner
from ares.step import RunState, graded, rewarded, shape, token_batch
from ares.store import Commit, RunStore
from benchmarks.gpu.device import Place, Row
from benchmarks.models import TINY

REPOSITORY = Path(__file__).resolve().parents[2]
Grade = Callable[[pd.DataFrame], pd.DataFrame]
"""Rows (id, slot, sample, response, answer) → their accuracy and format."""


def tiny_math(place: Place) -> Iterator[Row]:
    """A step of the profile tiny-math, with the model and problems of this repository."""
    small = ["rollout.prompts=2", "learner.global_batch_prompts=2"] if place.tiny else []
    config = load("tiny-math", [f"model.path={TINY}", f"learner.device={place.device}", *small])
    lines = (TINY / "train.jsonl").read_text(encoding="utf-8").splitlines()[: config.rollout.prompts]
    problems = [json.loads(line) for line in lines]
    template = AutoTokenizer.from_pretrained(TINY)
    texts = [
        template.apply_chat_template(
            [{"role": "user", "content": problem["prompt"]}], tokenize=False, add_generation_prompt=True
        )
        for problem in problems
    ]
    prompts = template(texts, add_special_tokens=False)["input_ids"]
    grader = load_grader(config.reward)
    yield from _steps(place, config, prompts, [problem["answer"] for problem in problems], grader.grade)


def published_shape(place: Place) -> Iterator[Row]:
    """A step of a 0.5B-shaped model of random weights in bfloat16, graded at random, with a reference and AEPO."""
    prompts, longest, tokens = (2, 16, 8) if place.tiny else (16, 512, 256)
    config = load("tiny-math", [
        f"model.path={place.model('0.5B')}", "model.dtype=bfloat16", f"learner.device={place.device}",
        f"rollout.prompts={prompts}", f"learner.global_batch_prompts={prompts}", "learner.lr=1e-6",
        f"rollout.max_response_length={longest}", f"learner.micro_batch_tokens={256 if place.tiny else 16384}",
    ])  # fmt: skip
    generator = np.random.default_rng(0)
    asked = generator.integers(3, 300, (prompts, tokens)).tolist()

    def grade(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(accuracy=generator.integers(0, 2, len(rows)).astype(float), format=0.0)

    yield from _steps(place, config, asked, [""] * prompts, grade)


def _steps(place: Place, config: Config, prompts: list[list[int]], answers: list[str], grade: Grade) -> Iterator[Row]:
    """Seconds of every phase of the second step; the first loads kernels."""
    tokenizer = AutoTokenizer.from_pretrained(config.model.location)
    learner = Learner(config)
    engine = TransformersEngine.create(config.rollout, config, tokenizer)
    assert engine.device.type == learner.device.type == place.device
    state = RunState.initial(config, len(prompts))
    engine.load_weights(0, learner.weights())
    for number in (1,) if place.tiny else (1, 2):
        step = _Step(place, config, learner, engine)
        sampled = step.timed("sample", partial(step.sampled, prompts, answers, number))
        sampled["response"] = tokenizer.batch_decode(
            [ids.tolist() for ids in sampled["token_ids"]], skip_special_tokens=True
        )
        grades = step.timed("grade", partial(grade, sampled))
        sampled["accuracy"], sampled["format"] = grades["accuracy"].to_numpy(), grades["format"].to_numpy()
        sampled["truncated"] = sampled["finish_reason"] == "length"
        batch = graded(token_batch(sampled, 0), rewarded(sampled, config, state.tests))
        batch = batch.union(step.timed("experience", partial(learner.experience, batch)))
        metrics = step.timed("shape", partial(shape, batch, state, config))
        result = step.timed("update", partial(learner.update, batch, state.state_dict()["beta"]))
        step.timed("hand over", partial(_hand_over, learner, engine, number))
    figures = step.seconds | {"whole step s": sum(step.seconds.values())}
    if place.cuda:
        figures["peak GiB"] = torch.cuda.max_memory_allocated() / 2**30
    tokens = int(batch.tensor("attention_mask").sum())
    yield {"row": f"step of {len(sampled)} responses", **figures, "tokens/s": tokens / figures["whole step s"],
           "|Δ log p| of engine and learner": metrics["mismatch/logprob_diff_mean"],
           "gradient norm": result.metrics.get("actor/grad_norm", float("nan"))}  # fmt: skip


def _hand_over(learner: Learner, engine: TransformersEngine, version: int) -> None:
    engine.load_weights(version, learner.weights())


class _Step:
    """Timing and sampling of one step."""

    def __init__(self, place: Place, config: Config, learner: Learner, engine: TransformersEngine) -> None:
        self.place, self.config, self.learner, self.engine = place, config, learner, engine
        self.seconds: dict[str, float] = {}

    def timed(self, name: str, work: Callable[[], Any]) -> Any:
        started = self.place.clock()
        result = work()
        self.seconds[f"{name} s"] = self.place.clock() - started
        return result

    def sampled(self, prompts: list[list[int]], answers: list[str], number: int) -> pd.DataFrame:
        """Rows with config.rollout.n samples of every prompt."""
        rollout = self.config.rollout
        rows = [(slot, sample) for slot in range(len(prompts)) for sample in range(rollout.n)]
        requests = [Request(prompts[slot], derive_seed(0, "gpu", number, slot, sample)) for slot, sample in rows]
        settings = SamplingSettings(rollout.temperature, rollout.top_p, rollout.max_response_length)
        completions = self.engine.generate(requests, settings)
        return pd.DataFrame(
            {
                "id": f"p{slot}", "slot": slot, "sample": sample, "answer": answers[slot],
                "prompt_token_ids": prompts[slot], "token_ids": completion.token_ids,
                "log_probs": completion.log_probs, "finish_reason": completion.finish_reason,
            }
            for (slot, sample), completion in zip(rows, completions, strict=True)
        )  # fmt: skip


def killed_run(place: Place) -> Iterator[Row]:
    """A run of tiny-math through `ares train`, killed before its last update and resumed, beside an unharmed one.

    On a GPU their bits may differ (docs/reliability.md); the row says whether they did.
    """
    import mlflow  # noqa: F401
    import prefect  # noqa: F401
    import ray  # noqa: F401

    steps = 3
    device = f"learner.device={place.device}"
    with tempfile.TemporaryDirectory() as directory:
        runs = Path(directory)
        started = place.clock()
        whole = _trained(runs, "whole", steps, device)
        unharmed = place.clock() - started
        _trained(runs, "killed", steps, device, kill_at=f"{steps}:update:before")
        started = place.clock()
        resumed = _trained(runs, "killed", steps, device)
        yield {"row": f"tiny-math, killed before update {steps}", "whole run s": unharmed,
               "resumed in s": place.clock() - started, "last step s": whole[-1].timings["timing_s/step"],
               "bit-identical": resumed[-1].digest() == whole[-1].digest()}  # fmt: skip


def _trained(runs: Path, name: str, steps: int, device: str, kill_at: str | None = None) -> list[Commit]:
    """Commits of a run of tiny-math after `ares train`, killed at a point or not."""
    command = [sys.executable, "-m", "tests.killed_cli", "train", "tiny-math", f"train.steps={steps}", device,
               f"train.checkpoint_every={steps}", "validation.every=100000", "bootstrap.max_prompts=48",
               "bootstrap.n=2", "--run", name]  # fmt: skip
    environment = os.environ | {"ARES_RUNS": str(runs), "KILL_AT": kill_at or "-1:none:before"}
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert ended.returncode == (-9 if kill_at else 0), ended.stderr
    store = RunStore(runs / name)
    return [store.read_commit(step) for step in store.committed_steps()]
