"""Whole steps with learner and engine on one device, without Prefect and Ray; and, with both, a run that is killed.

A step is that of the flows: sample, grade, measure, shape, update, hand over. Steps are only timed; whether runs learn
is in docs/measurements/learning.md.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd
import torch

from algorithms.keys import derive_seed
from ares.config import Config, load
from ares.data import load_problems, load_tokenizer
from ares.engines import Request, SamplingSettings, TransformersEngine
from ares.grading import load_grader
from ares.learner import Learner
from ares.step import RunState, graded, rewarded, shape, token_batch
from ares.store import Commit, RunStore
from benchmarks.gpu.device import Place, Row

REPOSITORY = Path(__file__).resolve().parents[2]
T = TypeVar("T")
Grade = Callable[[pd.DataFrame], pd.DataFrame]
"""Rows (id, slot, sample, response, answer) → their accuracy and format."""


def tiny_math(place: Place) -> Iterator[Row]:
    """A step of the profile tiny-math, with the model and problems of this repository."""
    small = ["rollout.prompts=2", "learner.global_batch_prompts=2"] if place.tiny else []
    config = load("tiny-math", [f"learner.device={place.device}", *small])
    yield from _last(place, take_tiny_steps(place, config, 1 if place.tiny else 2))


def published_shape(place: Place) -> Iterator[Row]:
    """A step of a 0.5B-shaped model of random weights in bfloat16, graded at random, with a reference and AEPO."""
    prompts, longest, tokens = (2, 16, 8) if place.tiny else (16, 512, 256)
    config = load("tiny-math", [
        f"model.path={place.model('0.5B')}", "model.dtype=bfloat16", f"learner.device={place.device}",
        f"rollout.prompts={prompts}", f"learner.global_batch_prompts={prompts}", "learner.lr=1e-6",
        f"rollout.max_response_length={longest}", f"learner.micro_batch_tokens={256 if place.tiny else 16384}",
    ])  # fmt: skip
    generator = np.random.default_rng(0)
    problems = pd.DataFrame({"prompt_token_ids": generator.integers(3, 300, (prompts, tokens)).tolist()})
    problems = problems.assign(prompt="", answer="")

    def grade(rows: pd.DataFrame) -> pd.DataFrame:
        return rows.assign(accuracy=generator.integers(0, 2, len(rows)).astype(float), format=0.0)

    yield from _last(place, take_steps(place, config, problems, grade, 1 if place.tiny else 2))


def take_tiny_steps(place: Place, config: Config, count: int) -> Iterator[Row]:
    """Steps of tiny-math on its first problems, as `take_steps` yields them."""
    tokenizer = load_tokenizer(config.model.path)
    problems = load_problems(str(config.data.train), "", config.data, tokenizer, limit=config.rollout.prompts).frame
    yield from take_steps(place, config, problems, load_grader(config.reward).grade, count)


def take_steps(place: Place, config: Config, problems: pd.DataFrame, grade: Grade, count: int) -> Iterator[Row]:
    """Seconds of every phase of each step, learner and engine taking turns, and what tells whether it was right.

    problems: prompt, prompt_token_ids and answer; all steps have the same.
    """
    tokenizer = load_tokenizer(config.model.path)
    learner = Learner(config)
    engine = TransformersEngine.create(config.rollout, config, tokenizer)
    assert engine.device.type == learner.device.type == place.device
    state = RunState.initial(config, len(problems))
    rollout = config.rollout
    settings = SamplingSettings(rollout.temperature, rollout.top_p, rollout.max_response_length)
    asked = (
        problems[["prompt", "prompt_token_ids", "answer"]].loc[problems.index.repeat(rollout.n)].reset_index(drop=True)
    )
    asked = asked.assign(slot=asked.index // rollout.n, sample=asked.index % rollout.n)
    asked["id"] = "p" + asked["slot"].astype(str)
    for number in range(1, count + 1):
        seconds: dict[str, float] = {}

        def timed(name: str, work: Callable[[], T], seconds: dict[str, float] = seconds) -> T:
            started = place.clock()
            result = work()
            seconds[f"{name} s"] = place.clock() - started
            return result

        timed("hand over", lambda: engine.load_weights(number - 1, learner.weights()))  # noqa: B023
        seeds = [derive_seed(0, "gpu", number, row) for row in asked.index]
        requests = [Request(*pair) for pair in zip(asked["prompt_token_ids"], seeds, strict=True)]
        answers = timed("sample", lambda: engine.generate(requests, settings))  # noqa: B023
        rows = asked.assign(
            token_ids=pd.Series([answer.token_ids for answer in answers]),
            tokens=[len(answer.token_ids) for answer in answers],
            log_probs=pd.Series([answer.log_probs for answer in answers]),
            finish_reason=[answer.finish_reason for answer in answers],
            truncated=[answer.finish_reason == "length" for answer in answers],
            response=tokenizer.batch_decode([each.token_ids.tolist() for each in answers], skip_special_tokens=True),
        )  # fmt: skip
        grades = timed("grade", partial(grade, rows))
        rows = rows.assign(accuracy=grades["accuracy"].to_numpy(), format=grades["format"].to_numpy())
        batch = graded(token_batch(rows, 0), rewarded(rows, config, state.tests))
        batch = batch.union(timed("experience", partial(learner.experience, batch)))
        metrics = timed("shape", partial(shape, batch, state, config))
        result = timed("update", partial(learner.update, batch, state.state_dict()["beta"]))
        whole = sum(seconds.values())
        yield {"row": f"step of {len(rows)} responses", **seconds, "whole step s": whole,
               "tokens/s": int(batch.tensor("attention_mask").sum()) / whole,
               "|Δ log p| of engine and learner": metrics["mismatch/logprob_diff_mean"],
               "gradient norm": result.metrics.get("actor/grad_norm", float("nan"))}  # fmt: skip


def _last(place: Place, steps: Iterator[Row]) -> Iterator[Row]:
    """The last step, since the first loads kernels."""
    *_, row = steps
    yield row | ({"peak GiB": torch.cuda.max_memory_allocated() / 2**30} if place.cuda else {})


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
