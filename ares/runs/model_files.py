"""Model directories that transformers, vLLM and lm-eval read: of a run's weights, and of a GGUF file.

Covered: weights, tokenizer, generation settings, a model's own code and image processor of a checkpoint; adapters on
their own (peft's format) or merged. The folder appears at its place once everything in it has been loaded again.
A GGUF file (llama.cpp's, often quantised) becomes a directory that can be trained: float32 weights, tokenizer, chat
template, end tokens, and the same answer to a question. Not covered: upload, architectures that transformers cannot
read from GGUF, files in several parts.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import (
    AutoImageProcessor,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerBase,
)
from transformers.utils import is_gguf_available
from transformers.utils.logging import disable_progress_bar

from ares.config import Config, ConfigError, ModelConfig
from ares.data import load_tokenizer, odd_in_template
from ares.engines import end_token_ids
from ares.learner import checkpoints
from ares.models import PUBLISHED_AS, ModelError, check_weight_files, quiet_transformers, read_settings
from ares.runs.description import check_model
from ares.store import Ref, RunStore, StoreError, files_in, read_config, run_store
from ares.workers import latest_checkpoint

SAMPLE = "def f(x):\n    return x + 12.5  # A naïve “test”, 3 < 4.\n"
"""What both tokenizers must turn into the same tokens."""
QUESTION = "What is the capital of France?"
TOKENS = 8
"""Of the greedy answer that file and directory must share."""


def export(run: str, out: Path, step: int | None = None, merge: bool = False) -> int:
    """Write the newest checkpoint (at or before `step`) of a run to `out`; returns the step it was made after.

    Full weights are written in the dtype of the original model. With model.lora the adapters are written, or with
    `merge` the merged model. Raises StoreError, and then leaves nothing behind.
    """
    disable_progress_bar()  # one for reading the weights, one for writing them
    store = run_store(run)
    with new_folder(out) as partial:  # its place is checked first
        config = read_config(store)
        check_model(store, config)
        version, checkpoint = _checkpoint(store, step)
        adapters_only = config.model.lora is not None and not merge
        try:
            _write(config, store.path(checkpoint), adapters_only, partial)
        except (OSError, SafetensorError) as error:
            if store.intact([checkpoint]):
                raise
            deleted = "was deleted while it was read, as training deletes old ones; give the same command again"
            raise StoreError(f"{store.directory / checkpoint.path} {deleted}") from error
        _check_written(config.model, partial, adapters_only)
    return version


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A temporary folder that becomes `out` at the end; after an error nothing is left. Raises StoreError."""
    _check_new(out)
    partial = out.absolute().with_name(f".{out.absolute().name}.{os.getpid()}.partial")
    try:
        shutil.rmtree(partial, ignore_errors=True)  # of one that was killed: in a container pids come again
        partial.mkdir(parents=True)
        yield partial
        common = partial.stat().st_mode & 0o666  # permissions obey the umask; safetensors writes for the owner alone
        for file in files_in(partial):
            file.chmod(common)
        os.rename(partial, out)
    except (OSError, SafetensorError) as error:
        raise StoreError(f"{out} cannot be written: {getattr(error, 'strerror', None) or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _check_new(out: Path) -> None:
    """Raise StoreError unless `out` is a folder that can be made, or an empty one."""
    there = next(place for place in (out, *out.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise StoreError(f"{out} cannot be written: {there} is {'read-only' if there.is_dir() else 'not a folder'}")
    if there == out and any(out.iterdir()):
        raise StoreError(f"{out} is not empty: name a new folder")


def _checkpoint(store: RunStore, step: int | None) -> tuple[int, Ref]:
    version, checkpoint = latest_checkpoint(store, step)
    if checkpoint is None:
        before = "" if step is None else f" at or before step {step}"
        kept = "train.checkpoint_every, train.keep_checkpoints"
        raise StoreError(f"Run {store.name!r} has no checkpoint{before} ({kept})")
    return version, checkpoint


def _write(config: Config, checkpoint: Path, adapters_only: bool, folder: Path) -> None:
    model = _load(config.model, config.model.location)
    if adapters_only:
        model = _with_adapters(model, config, checkpoints.read(checkpoint, checkpoints.ADAPTERS))
    else:
        with torch.no_grad():
            weights = checkpoints.read(checkpoint, checkpoints.POLICY)
            if config.learner.ema is not None:
                weights |= checkpoints.read(checkpoint, checkpoints.AVERAGE)
            for name, parameter in model.named_parameters():
                parameter.copy_(weights[name])
    # transformers refuses to save settings that it reads without complaint (sampling flags beside do_sample=false).
    generation = getattr(model, "generation_config", None)
    if generation is not None:
        model.generation_config = GenerationConfig()
    model.save_pretrained(folder)
    tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
    if generation is not None and not adapters_only:
        ends = sorted(end_token_ids(config.model.location, tokenizer))
        generation.eos_token_id = ends[0] if len(ends) == 1 else ends or None  # as the engine ended responses
        (folder / "generation_config.json").write_text(generation.to_json_string(), encoding="utf-8")
    tokenizer.save_pretrained(folder)
    if config.model.family == "vision_language":
        AutoImageProcessor.from_pretrained(config.model.location, backend="pil").save_pretrained(folder)


def _check_written(model: ModelConfig, folder: Path, adapters_only: bool) -> None:
    """Load what was written. Raises StoreError if that fails."""
    try:
        if adapters_only:
            from peft import PeftConfig, load_peft_weights

            PeftConfig.from_pretrained(str(folder))
            load_peft_weights(str(folder), device="cpu")
        else:
            check_weight_files(model.model_copy(update={"path": str(folder)}))
            _load(model, str(folder))
            if (folder / "generation_config.json").exists():
                GenerationConfig.from_pretrained(folder)
        before, after = (load_tokenizer(path, model.trust_remote_code) for path in (model.path, str(folder)))
        if type(before).__name__ != type(after).__name__:
            raise ValueError(f"the tokenizer is a {type(after).__name__}, and was a {type(before).__name__}")
        if before.encode(SAMPLE) != after.encode(SAMPLE) or before.chat_template != after.chat_template:
            raise ValueError("the tokenizer is not the one that the model was trained with")
    except (OSError, ValueError, RuntimeError, ImportError, ConfigError, ModelError) as error:
        raise StoreError(f"What was exported cannot be loaded, so it was deleted again: {error}") from error


def _load(model: ModelConfig, place: str) -> Any:
    remote = {"trust_remote_code": model.trust_remote_code}
    settings = read_settings(model.model_copy(update={"path": place}))
    return PUBLISHED_AS[model.family].from_pretrained(place, dtype=settings.dtype or torch.float32, **remote)


def _with_adapters(model: Any, config: Config, adapters: dict[str, torch.Tensor]) -> Any:
    from peft import get_peft_model

    from ares.models import peft_settings

    assert config.model.lora is not None
    wrapped = get_peft_model(model, peft_settings(config.model))
    named = {f"base_model.model.{name}": value for name, value in adapters.items()}
    unplaced = wrapped.load_state_dict(named, strict=False)
    assert not unplaced.unexpected_keys, f"adapters that the model has no place for: {unplaced.unexpected_keys[:3]}"
    return wrapped


def import_gguf(file: Path, out: Path) -> list[str]:
    """Write the model of a GGUF file to the new folder `out`; returns what is odd about its chat template.

    Raises ModelError where the file cannot be read or what was written does not answer alike, StoreError where nothing
    can be written; then nothing is left behind.
    """
    disable_progress_bar()  # one for writing the weights, one for reading them again
    if not is_gguf_available():
        raise ModelError("reading GGUF files needs the package gguf: pip install gguf")
    if not file.is_file():
        raise ModelError(f"{file}: there is no such file")
    try:
        with quiet_transformers():
            tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
            how: dict[str, Any] = {"gguf_file": file.name}
            if hasattr(transformers, "GgufConfig"):  # before there was one, weights were always dequantised
                how["quantization_config"] = transformers.GgufConfig(dequantize=True)
            model = AutoModelForCausalLM.from_pretrained(file.parent, dtype=torch.float32, **how)
    except Exception as error:  # of damaged files and unknown architectures gguf and transformers raise anything
        cause = " ".join(str(error).split())
        raise ModelError(f"{file}: not a GGUF file that transformers can read: {cause}") from error
    with new_folder(out) as folder:
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return _check_imported(file, model, tokenizer, folder)


def _check_imported(file: Path, model: Any, tokenizer: PreTrainedTokenizerBase, folder: Path) -> list[str]:
    check_weight_files(ModelConfig(path=str(folder)))
    written, words = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), load_tokenizer(str(folder))
    for what, before, after in (
        ("chat template", tokenizer.chat_template, words.chat_template),
        ("tokens of text", tokenizer.encode(SAMPLE), words.encode(SAMPLE)),
        ("answer", _answer(model, tokenizer), _answer(written, words)),
    ):
        if before != after:
            raise ModelError(f"{file}: what was written has another {what} ({after!r}, in the file {before!r})")
    if not (ends := end_token_ids(str(folder), words)):
        raise ModelError(f"{file}: it names no end token (tokenizer.ggml.eos_token_id), so no response would end")
    return odd_in_template(words, {}, ends)


def _answer(model: Any, tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The first tokens of the greedy answer to a question."""
    text = QUESTION
    if tokenizer.chat_template:
        chat = [{"role": "user", "content": QUESTION}]
        text = str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))
    asked = tokenizer(text, add_special_tokens=not tokenizer.chat_template, return_tensors="pt")
    answered: list[int] = model.generate(**asked, max_new_tokens=TOKENS, do_sample=False)[0].tolist()
    return answered[asked["input_ids"].shape[1] :]
