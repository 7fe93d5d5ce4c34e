"""vLLM samples from the learner's vision-language policy, also after decoder and vision encoder were replaced in place.

Skipped where vLLM or torchvision cannot be loaded: beside a CPU build of torch the registry's torchvision cannot.
"""

from pathlib import Path

import pandas as pd
import pytest
import ray
import torch

from ares.cluster.actors import EngineActor
from ares.config.profiles import load
from ares.engines.engine import Request, SamplingSettings
from ares.learner.learner import Learner
from ares.step.collate import token_batch
from tests.ares.builders import PAD
from tests.ares.vision_builders import CHART, DOTS, MODEL, image, problems

pytest.importorskip(
    "torchvision",
    reason="needs torchvision, whose registered builds are for a CUDA torch",
    exc_type=(ImportError, RuntimeError),
)
pytest.importorskip("vllm", exc_type=ImportError)  # after the other: it is slow to import
pytestmark = pytest.mark.slow


def test_its_log_probs_are_the_learners_also_after_an_update_in_place(tmp_path: Path) -> None:
    config = load("tiny-vision", ["rollout.engine=vllm", f"model.path={MODEL}", "data.max_prompt_length=100"])
    large = str(image(tmp_path, "a.png", (70, 50), "blue"))
    shown = problems(
        tmp_path,
        {"prompt": "<image>How many dots?", "images": [DOTS]},
        {"prompt": "<image>or <image>?", "images": [large, CHART]},
        {"prompt": "How many dots?"},
        {"prompt": "<image>How many red dots?", "images": [DOTS]},
    ).frame
    ray.init(num_cpus=2, include_dashboard=False, ignore_reinit_error=True, log_to_driver=False)
    actor = ray.remote(EngineActor).options(num_cpus=1).remote(config.model_dump(mode="json"))
    learner = Learner(config)
    prompts = zip(shown["prompt_token_ids"], shown["media_references"], strict=True)
    requests = [Request(prompt, seed, tuple(media)) for seed, (prompt, media) in enumerate(prompts)]
    for version in range(2):
        weights = {name: tensor.numpy().copy() for name, tensor in learner.weights().items()}
        ray.get(actor.load_weights.remote(version, weights))
        parts = actor.generate.options(num_returns="streaming").remote(requests, SamplingSettings(1.0, 1.0, 16))
        answers = pd.concat([ray.get(part) for part in parts]).sort_index()
        rows = shown[["prompt_token_ids", "media_references"]].join(answers[["token_ids", "log_probs"]])
        batch = token_batch(rows.assign(slot=range(len(rows)), sample=0), PAD)
        expected = batch.tensor("engine_log_probs")[batch.tensor("response_mask").bool()]
        with torch.no_grad():
            own = learner.policy.token_log_probs(learner.policy.on_device(batch), 1.0).log_probs
        torch.testing.assert_close(own, expected, atol=1e-3, rtol=1e-3)
        generator = torch.Generator().manual_seed(version)
        with torch.no_grad():  # another policy, with another tower: neither head nor caches may be the old ones
            for parameter in learner.policy.model.parameters():
                parameter += 0.05 * torch.randn(parameter.shape, generator=generator)
    ray.kill(actor)
