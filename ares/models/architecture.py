"""Checks of a model's configuration, so that what ares would compute wrongly is refused before anything is sampled.

Covered: capped or scaled logits, rotary embeddings that depend on the longest row of a pass, learned positions, random
routers, experts in vLLM, a cache or positions that a model ignores; the sliding window of a layer. Not covered: what
only a trial on numbers shows (ares/models/causal.py).
"""

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, PretrainedConfig

from ares.config import Config, ModelConfig, absent_model
from ares.errors import UserError

SOFTCAPS = ("final_logit_softcapping", "attn_logit_softcapping")
"""Soft caps on the logits of the head and of attention; torch's fused attention ignores the latter."""
SCALES: dict[str, Callable[[float], float]] = {"logit_scale": float, "logits_scaling": lambda divisor: 1 / divisor}
"""Settings that scale logits after the head (Cohere's, Granite's), each with the factor it means."""
BY_LENGTH = ("longrope", "dynamic")
"""Kinds of rope whose angles change for every row of a pass once the longest one exceeds the original window."""
RANDOM_ROUTERS = ("phimoe",)
"""Model types whose router draws experts at random in training mode, whatever their settings say."""
NUMBERS_OF_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""Names of the setting for the number of experts in a layer."""
ADAPTERS = "holds adapters: merge them into their base model first (of a run, with ares export --merge)"
"""What is said of a model that is not whole."""
POSITIONS_OF_MASK = ("bloom", "mpt")
"""Model types that take no position_ids, since the mask tells them the distances that they attend by."""


class ModelError(UserError, ValueError):
    """A model cannot be used; the message says why."""


def check_architecture(config: Config) -> None:
    """Raise ModelError when ares would train the model of a configuration on wrong log-probs."""
    settings = read_settings(config.model)
    refuse_softcaps(settings, config.model.path)
    _refuse_random_routers(settings.get_text_config(), config.model)
    for kind, window in _windows_of_ropes(settings.get_text_config()):
        if config.longest_sequence > window:
            raise ModelError(
                f"{config.model.path}: beyond {window} tokens its rotary embedding ({kind}) depends on the longest row "
                f"that passes through the model beside a row, so log-probs of one response would have several values. "
                f"data.max_prompt_length + rollout.max_response_length (and second turns) come to "
                f"{config.longest_sequence}: stay within {window}"
            )


def check_positions(model: Any, config: Config) -> None:
    """Raise ModelError where a model (on any device) has a learned embedding for fewer positions than rows may have."""
    vocabularies = {id(part) for part in (model.get_input_embeddings(), model.get_output_embeddings())}
    most = getattr(model.config.get_text_config(), "max_position_embeddings", None)
    tables = [part.num_embeddings for part in model.modules() if isinstance(part, nn.Embedding)
              and id(part) not in vocabularies]  # fmt: skip
    # OPT's has two more rows than positions, for padding.
    if most is not None and config.longest_sequence > most and any(most <= size <= most + 2 for size in tables):
        raise ModelError(
            f"{model.name_or_path}: it has learned {most} positions, and data.max_prompt_length + "
            f"rollout.max_response_length (and second turns) come to {config.longest_sequence}: stay within {most}"
        )


def check_sampling(model: Any, config: Config) -> None:
    """Raise ModelError when a run's engine would sample a model (on any device) with wrong log-probs."""
    settings = model.config.get_text_config()
    if config.rollout.engine == "vllm" and any(getattr(settings, name, None) for name in NUMBERS_OF_EXPERTS):
        # A mixture's log-probs are wrong once its weights were replaced in place.
        raise ModelError(
            f"{config.model.path}: {settings.model_type} is a mixture of experts, and vLLM's log-probs are "
            "wrong once experts got new weights (docs/models.md): use rollout.engine=transformers"
        )
    if config.rollout.engine == "transformers":
        # Many forwards swallow arguments that they do not name; some hand them on to the decoder, which names them.
        taken = {name for part in (model, model.get_decoder()) for name in inspect.signature(part.forward).parameters}
        needed = ["past_key_values"] + ["position_ids"] * (settings.model_type not in POSITIONS_OF_MASK)
        if ignored := [name for name in needed if name not in taken]:
            raise ModelError(
                f"{config.model.path}: {type(model).__name__} ignores {' and '.join(ignored)}, so that "
                "rollout.engine=transformers would sample from wrong probabilities: use another engine"
            )


def read_settings(config: ModelConfig) -> Any:
    """A model's configuration. Raises ModelError."""
    if os.path.exists(Path(config.location, "adapter_config.json")):
        raise ModelError(f"model.path={config.path}: {ADAPTERS}")
    if config.family == "masked_diffusion":
        from ares.models import llada  # noqa: F401 (registers it with transformers; others need not wait for it)
    try:
        return AutoConfig.from_pretrained(config.location, trust_remote_code=config.trust_remote_code)
    except Exception as error:  # remote code and odd files raise anything
        if absent := absent_model(config.path, error):
            raise ModelError(absent) from error
        hint = ""
        if "trust_remote_code" in str(error):
            hint = " Read the Python files in that directory; if you trust them, set model.trust_remote_code=true."
        cause = first_sentence(error)
        raise ModelError(f"model.path={config.path}: not a model that transformers can load: {cause}{hint}") from error


def training_settings(config: ModelConfig) -> Any:
    """A model's configuration for training: without dropout, as log-probs must not be random. Raises ModelError."""
    settings = read_settings(config)
    refuse_softcaps(settings, config.path)
    return _without_dropout(settings)


def _without_dropout(settings: PretrainedConfig) -> PretrainedConfig:
    """The settings with every dropout rate and router's noise at 0, those of nested configurations too."""
    for name, value in list(vars(settings).items()):
        if isinstance(value, PretrainedConfig):
            _without_dropout(value)
        elif isinstance(value, float) and ("drop" in name or name.endswith("jitter_noise")):
            setattr(settings, name, 0.0)
    return settings


def refuse_softcaps(settings: PretrainedConfig, path: str) -> None:
    """Raise ModelError when logits are capped: neither the learner nor torch's fused attention does that."""
    for part in (settings, settings.get_text_config()):
        for name in SOFTCAPS:
            if getattr(part, name, None):
                raise ModelError(
                    f"{path}: {settings.model_type} caps its logits ({name}={getattr(part, name)}), "
                    "which ares does not reproduce"
                )


def logit_scale(settings: PretrainedConfig, tried: Sequence[Sequence[Tensor]]) -> float | None:
    """The factor between the head's logits and the model's: 1, or that of a setting in SCALES; None: neither fits.

    tried: pairs of the head's logits and the model's, one small and one large, since only the latter show a cap.
    """
    known = [factor(value) for name, factor in SCALES.items() if (value := getattr(settings, name, None))]
    for scale in (1.0, *known):
        if all(
            torch.allclose(scale * plain, expected, atol=1e-3 * float(plain.abs().max()), rtol=1e-3)
            for plain, expected in tried
        ):
            return scale
    return None


def _refuse_random_routers(settings: PretrainedConfig, model: ModelConfig) -> None:
    """Raise ModelError where an update's pass may choose other experts than the pass it is compared with."""
    if settings.model_type in RANDOM_ROUTERS:
        raise ModelError(
            f"{model.path}: {settings.model_type} trains with a router that draws its experts at random, so one "
            "response has other log-probs in every pass; ares does not train it"
        )


def window_of(module: Any) -> int | None:
    """Size of a layer's sliding window in tokens, the token itself included; None: full causal attention.

    From the configuration: some architectures (Qwen2-MoE, Phi-MoE) apply the window only in their mask.
    """
    config = getattr(module, "config", None)
    window = getattr(config, "sliding_window", None) or None
    kinds = getattr(config, "layer_types", None)
    number = getattr(module, "layer_idx", None)
    if kinds and number is not None and kinds[number] != "sliding_attention":
        return None
    return window


def _windows_of_ropes(settings: Any) -> Iterator[tuple[str, int]]:
    """Kind and original window of every length-dependent rope; some models have one for each kind of layer."""
    written = getattr(settings, "rope_parameters", None) or {}
    for rope in (written, *written.values()):
        kind = rope.get("rope_type", "") if isinstance(rope, dict) else ""
        if any(name in kind for name in BY_LENGTH):
            window = settings.max_position_embeddings
            yield kind, (rope.get("original_max_position_embeddings") or window) if kind == "longrope" else window


def first_sentence(error: BaseException) -> str:
    """The first sentence of a library's long message, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.partition(". ")[0].rstrip(".") + "."
