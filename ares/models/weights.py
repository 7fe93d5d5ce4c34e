"""A model's weights: checking its files, reading them, naming the tensors that are stored.

Covered: safetensors and legacy .bin files, whole or in shards, under transformers' own renaming and tying; a tokenizer
that exceeds the vocabulary; adapters beside the weights. All this is checked from headers, with the model on the meta
device, before anything starts; NaN, and heads that are not tied as config.json says, when weights are read. Not
covered: headers of a hub's model that is not downloaded yet (loading makes the same checks), logits that are
transformed after the head (ares/models/causal.py).
"""

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from ares.config import Config, ModelConfig
from ares.models.architecture import (
    ADAPTERS,
    ModelError,
    check_architecture,
    check_positions,
    check_sampling,
    first_sentence,
    read_settings,
    training_settings,
)
from ares.models.transformers_internals import load_with_report

PUBLISHED_AS: dict[str, Any] = {
    "causal": AutoModelForCausalLM,
    "vision_language": AutoModelForImageTextToText,
    "masked_diffusion": AutoModel,
}
"""The Auto class of each model family."""
UNREADABLE = (OSError, ValueError, LookupError, EOFError, SafetensorError, pickle.UnpicklingError)
"""What reading incomplete or damaged files of weights raises."""
SHOWN = 3
"""Tensors that an error names of each kind."""


def checked_model(config: Config, sampled: bool = True) -> Any:
    """Check that ares can train a run's model, and sample it if `sampled`; returns it on the meta device. Raises
    ModelError."""
    check_architecture(config)
    model = check_weight_files(config.model)
    check_positions(model, config)
    if sampled:
        check_sampling(model, config)
    return model


def check_weight_files(config: ModelConfig, kind: Any = None) -> Any:
    """Check the headers of a model's files; returns the model on the meta device.

    kind: its Auto class. None: that of its family.
    Raises ModelError where a tensor is missing, unexpected or of another shape, where a file is damaged, and where the
    architecture is unknown.
    """
    settings = read_settings(config)
    if getattr(settings, "quantization_config", None):
        raise ModelError(f"model.path={config.path}: its weights are quantised; ares trains those that are not")
    with quiet_transformers():
        model = _empty(kind or PUBLISHED_AS[config.family], settings, config)
        try:
            how = {"device_map": {"": "meta"}, "local_files_only": True}
            model, info = _read(type(model), settings, config, **how)
        except ModelError as error:
            if isinstance(error.__cause__, OSError) and not Path(config.location).is_dir():
                return model  # of the hub, and not downloaded yet
            raise
    check_loaded(info, config.path, type(model).__name__)
    return model


def read_weights(kind: Any, settings: Any, config: ModelConfig) -> Any:
    """Load config.path in float32 with an Auto class. Raises ModelError.

    Every weight comes from the files and is finite.
    """
    with quiet_transformers():
        empty = _empty(kind, settings, config)
        expected = stored_tensors(empty).keys()
        model, info = _read(type(empty), settings, config, dtype=torch.float32)
    check_loaded(info, config.path, type(model).__name__)
    if untied := stored_tensors(model).keys() ^ expected:
        raise ModelError(
            f"model.path={config.path}: its weight files and config.json do not agree on what is tied "
            f"(tie_word_embeddings): {_some(sorted(untied))}"
        )
    check_finite(model, config.path)
    return model


def _read(kind: Any, settings: Any, config: ModelConfig, **how: Any) -> tuple[Any, dict[str, Any]]:
    try:
        model, info = load_with_report(kind, config.location, settings, **how)
    except UNREADABLE as error:
        told = f"its weight files cannot be read: {first_sentence(error)}"
        raise ModelError(f"model.path={config.path}: {told}") from error
    if getattr(model, "_hf_peft_config_loaded", False):
        raise ModelError(f"model.path={config.path}: {ADAPTERS}")  # of the hub
    return model, info


def read_policy(config: ModelConfig, device: torch.device) -> Any:
    """A model of its family, float32 and without dropout, on a device.

    Raises ModelError, also where decoder and output head cannot be told apart.
    """
    model = read_weights(PUBLISHED_AS[config.family], training_settings(config), config)
    of_decoder = nn.Module if config.family == "masked_diffusion" else PreTrainedModel
    for part, kind in (("get_decoder", of_decoder), ("get_output_embeddings", nn.Module)):
        found = getattr(model, part, lambda: None)()
        if found is model or not isinstance(found, kind):
            raise ModelError(
                f"{config.path}: {type(model).__name__}.{part}() does not tell decoder and output head apart"
            )
    model.to(device)
    if config.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train(config.gradient_checkpointing)  # transformers recomputes in training mode only
    return model


def empty_model(config: ModelConfig, device: torch.device | str) -> Any:
    """A model of its family without weights, frozen, in the type it computes in. Raises ModelError."""
    settings, dtype = read_settings(config), getattr(torch, config.dtype)
    with torch.device(device):
        kind = PUBLISHED_AS[config.family]
        model = kind.from_config(settings, dtype=dtype, trust_remote_code=config.trust_remote_code)
    return model.eval().requires_grad_(False)


def check_loaded(info: Mapping[str, Any], path: str, kind: str) -> None:
    """Raise ModelError where files and architecture differ (transformers' loading info), naming the first tensors."""
    differences = {
        "missing": info["missing_keys"],
        "unexpected": info["unexpected_keys"],
        "of another shape": [name for name, *_ in info["mismatched_keys"]],
    }
    if told := [f"{what}: {_some(sorted(names))}" for what, names in differences.items() if names]:
        raise ModelError(f"model.path={path}: its weight files do not hold a {kind}: {'; '.join(told)}")


@torch.no_grad()
def check_finite(model: nn.Module, path: str) -> None:
    """Raise ModelError naming a weight that holds NaN or infinity."""
    for name, weight in model.named_parameters():
        if not torch.isfinite(weight).all():
            raise ModelError(f"model.path={path}: numbers of {name} are NaN or infinite")


def check_vocabulary(
    model: Any, tokenizer: PreTrainedTokenizerBase, ends: set[int], prompts: Iterable[Iterable[int]], path: str
) -> None:
    """Raise ModelError where the tokenizer makes tokens, or a response ends with one, that the model does not have.

    ends: the tokens at which responses end. prompts: token ids. Tokens that were added to the tokenizer count only
    where a prompt has them: Gemma 3's text models come with a token for images.
    """
    rows = model.get_input_embeddings().num_embeddings
    used = max((max(prompt, default=0) for prompt in prompts), default=0)
    of_text = tokenizer.get_vocab().values() - tokenizer.added_tokens_decoder.keys()
    if (last := max([used, *of_text])) >= rows:
        raise ModelError(
            f"model.path={path}: the tokenizer makes tokens up to {tokenizer.convert_ids_to_tokens(last)!r} ({last}), "
            f"the model has embeddings for {rows} (vocab_size): they do not belong together"
        )
    head = model.get_output_embeddings()
    sayable = rows if head is None else head.weight.shape[0]
    for number in sorted(ends, key=str):
        if not isinstance(number, int) or not 0 <= number < sayable:
            raise ModelError(
                f"model.path={path}: the end token {number!r} is none of the {sayable} tokens that the model can say, "
                "so no response would end (eos_token_id in generation_config.json, config.json and the tokenizer)"
            )


def stored_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and persistent buffers by name, tied ones under the first name. GLM-4-MoE and DeepSeek-V3 choose
    experts by such a buffer."""
    return dict(model.named_parameters()) | dict(persistent_buffers(model))


def persistent_buffers(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Buffers that are saved with a model."""
    saved = model.state_dict().keys()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name in saved)


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Silence transformers' progress bar and loading report: problems are raised."""
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity(logging.CRITICAL)
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()


def _empty(kind: Any, settings: PretrainedConfig, config: ModelConfig) -> Any:
    try:
        with torch.device("meta"):
            return kind.from_config(settings, trust_remote_code=config.trust_remote_code)
    except Exception as error:  # remote code and odd settings raise anything
        raise ModelError(
            f"model.path={config.path}: no {config.family} model can be made of its config.json "
            f"(model_type {settings.model_type}; model.family): {first_sentence(error)}"
        ) from error


def _some(names: list[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")
