"""A run's weights as a model directory that transformers, vLLM and lm-eval read.

Covered: weights, tokenizer and image processor of a checkpoint, adapters on their own (peft's format) or
merged. Not covered: upload.
"""

import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoImageProcessor, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from ares.config import Config
from ares.learner import checkpoints
from ares.models import PUBLISHED_AS
from ares.runs.digests import check_model
from ares.runs.run import read_config
from ares.store import Ref, RunStore, StoreError, run_store


def export(run: str, out: Path, step: int | None = None, merge: bool = False) -> int:
    """Write the newest checkpoint (at or before `step`) of a run to `out`; returns the step it was made after.

    Full weights are written in the dtype of the original model. With model.lora the adapters are written, or with
    `merge` the merged model. Raises StoreError.
    """
    _check_new(out)
    disable_progress_bar()  # one for reading the weights, one for writing them
    store = run_store(run)
    config = read_config(store)
    check_model(store, config)
    version, checkpoint = _checkpoint(store, step)
    folder = store.folder(checkpoint)
    model = _model(config)
    if config.model.lora is not None and not merge:
        model = _with_adapters(model, config, checkpoints.read(folder, checkpoints.ADAPTERS))
    else:
        with torch.no_grad():
            weights = checkpoints.read(folder, checkpoints.POLICY)
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])
    try:
        out.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(out)
        AutoTokenizer.from_pretrained(config.model.location).save_pretrained(out)
        if config.model.family == "vision_language":
            AutoImageProcessor.from_pretrained(config.model.location, backend="pil").save_pretrained(out)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{out} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    return version


def _check_new(out: Path) -> None:
    """Raise StoreError unless `out` is a folder that can be made, or an empty one."""
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise StoreError(f"{out} cannot be written: {there} is {'read-only' if there.is_dir() else 'no folder'}")
    if there == out and any(out.iterdir()):
        raise StoreError(f"{out} is not empty: name a new folder")


def _checkpoint(store: RunStore, step: int | None) -> tuple[int, Ref]:
    for number in reversed(store.committed_steps()):
        checkpoint = store.checkpoint_of(number) if step is None or number <= step else None
        if checkpoint is not None and store.intact([checkpoint]):
            return number, checkpoint
    before = "" if step is None else f" at or before step {step}"
    raise StoreError(f"Run {store.name!r} has no checkpoint{before} (train.checkpoint_every, train.keep_checkpoints)")


def _model(config: Config) -> Any:
    kind = PUBLISHED_AS[config.model.family]
    remote = {"trust_remote_code": config.model.trust_remote_code}
    settings = AutoConfig.from_pretrained(config.model.location, **remote)
    return kind.from_pretrained(config.model.location, dtype=settings.dtype or torch.float32, **remote)


def _with_adapters(model: Any, config: Config, adapters: dict[str, torch.Tensor]) -> Any:
    from peft import get_peft_model

    from ares.models import peft_settings

    assert config.model.lora is not None
    wrapped = get_peft_model(model, peft_settings(config.model))
    named = {f"base_model.model.{name}": value for name, value in adapters.items()}
    unplaced = wrapped.load_state_dict(named, strict=False)
    assert not unplaced.unexpected_keys, f"adapters that the model has no place for: {unplaced.unexpected_keys[:3]}"
    return wrapped
