"""A small masked-diffusion model of random weights in its own directory, and one that brings its own code."""

import atexit
import functools
import json
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from algorithms.keys import derive_seed
from algorithms.protocol import DataProto
from ares.config.profiles import load
from ares.config.run import Config, ModelConfig
from ares.engines.engine import Request
from ares.learner.learner import Learner
from ares.step.shaping import shape
from ares.step.state import RunState
from examples.tiny.models import build_masked, build_tokenizer
from examples.tiny.one_liners import WHOLE_WORDS, respond, split_one_liners
from tests.ares.builders import rows, to_batch
from tests.ares.data.code_rows import written

REMOTE_CODE = Path(__file__).parent / "remote_model"
PROMPTS = ["Write calc(x) that adds 3 to x.", "Write go(s) that adds 4 to the length of s.", "Write do(v)."]

PLACES = 10
ACCURACIES: list[list[float | None]] = [[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 1.0, 0.0]]

torch.set_num_threads(1)


@functools.cache
def model_directory() -> Path:
    """The tiny architecture with random weights, its tokenizer, and a few problems beside it."""
    folder = Path(tempfile.mkdtemp(prefix="ares-masked-"))
    atexit.register(shutil.rmtree, folder)
    split = split_one_liners(random.Random(0), 40, 12)
    texts = [text for problem in split.train for text in (problem.prompt, respond(problem.solution))]
    tokenizer = build_tokenizer(texts, 384, max_length=256, whole_words=WHOLE_WORDS)
    build_masked(tokenizer, torch.Generator().manual_seed(0)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name, problems in (("train", split.train), ("heldout", split.heldout)):
        rows = [{"id": f"{name}-{number}"} | problem.row() for number, problem in enumerate(problems)]
        written(folder / f"{name}.jsonl", *rows)
    return folder


@functools.cache
def remote_directory() -> Path:
    """The same weights under a model type that only the Python files in the directory know, as DiffuCoder's is."""
    folder = Path(tempfile.mkdtemp(prefix="ares-remote-"))
    atexit.register(shutil.rmtree, folder)
    shutil.copytree(model_directory(), folder, dirs_exist_ok=True)
    for file in REMOTE_CODE.glob("*.py"):
        shutil.copy(file, folder)
    settings = json.loads((folder / "config.json").read_text())
    settings["model_type"] = "remote_diffusion"
    settings["auto_map"] = {
        "AutoConfig": "configuration_remote.RemoteConfig",
        "AutoModel": "modeling_remote.RemoteModel",
    }
    (folder / "config.json").write_text(json.dumps(settings))
    return folder


def settings(folder: Path | None = None, **others: Any) -> ModelConfig:
    """How the learner and the engine are told of a model, by default of the one with random weights."""
    path = str(folder or model_directory())
    return ModelConfig(**{"path": path, "family": "masked_diffusion", "trust_remote_code": True} | others)


def config(*overrides: str, model: Path | None = None) -> Config:
    """tiny-diffusion on the random model, with two prompts of four samples a step, and the overrides."""
    folder = model or model_directory()
    small = [
        f"model.path={folder}",
        f"data.train={folder / 'train.jsonl'}",
        f"data.validation={folder / 'heldout.jsonl'}",
        "rollout.n=4",
        "rollout.prompts=2",
        f"rollout.max_response_length={PLACES}",
        "rollout.diffusion.steps=5",
        "learner.global_batch_prompts=2",
        "learner.warmup_steps=0",
    ]
    return load("tiny-diffusion", [*small, *overrides])


@functools.cache
def tokenizer() -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(model_directory())


def requests(count: int, seed: int = 0) -> list[Request]:
    """Requests whose prompts differ in length."""
    ids = tokenizer()(PROMPTS, add_special_tokens=False)["input_ids"]
    return [Request(ids[i % len(ids)], derive_seed(seed, "test", i)) for i in range(count)]


def sampled() -> DataProto:
    """Two groups of responses that end somewhere on their canvases."""
    table = rows(ACCURACIES)
    canvases = [
        [*tokens.tolist(), *[tokenizer().eos_token_id] * (PLACES - len(tokens))] for tokens in table["token_ids"]
    ]
    entropies = table["log_probs"].map(lambda values: -values)
    return to_batch(table.assign(canvas=canvases, token_entropies=entropies), tokenizer().pad_token_id)


def shaped(learner: Learner) -> DataProto:
    """The same, as `Learner.update` takes them."""
    batch = sampled()
    batch = batch.union(learner.experience(batch))
    shape(batch, RunState.initial(learner.config, 100), learner.config)
    return batch
