"""What a model's configuration says that decides whether ares computes what the model does.

Covered: caps on logits, factors that scale them, rotary embeddings that depend on the longest row of a pass, routers
that draw at random, and experts in vLLM, refused by name before anything is sampled unless they are reproduced; the
sliding window of a layer. Not covered: what else a model may do to its logits, which can only be tried on numbers
(ares/models/causal.py).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, PretrainedConfig

from ares.config import Config, ModelConfig, absent_model
from ares.errors import UserError

SOFTCAPS = ("final_logit_softcapping", "attn_logit_softcapping")
"""Settings that cap logits softly, of the head and of attention: torch's fused attention leaves out the latter."""
SCALES: dict[str, Callable[[float], float]] = {"logit_scale": float, "logits_scaling": lambda divisor: 1 / divisor}
"""Settings by which logits are scaled after the head (Cohere's, Granite's), and the factor that each stands for."""
BY_LENGTH = ("longrope", "dynamic")
"""Kinds of rope that turn every position of a pass otherwise once its longest row exceeds the original window."""

RANDOM_ROUTERS = ("phimoe",)
"""Model types whose router draws its experts at random in training mode, whatever their settings say."""


NUMBERS_OF_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
"""How architectures call the number of experts in a layer."""


class ModelError(UserError, ValueError):
    """A model directory cannot be used; the message says what is wrong with it."""


def check_architecture(config: Config) -> None:
    """Raise ModelError when the model cannot be trained rightly at the lengths of a configuration."""
    settings = read_settings(config.model)
    refuse_softcaps(settings, config.model.path)
    _refuse_random_routers(settings.get_text_config(), config.model)
    _refuse_experts_in_vllm(settings.get_text_config(), config)
    for kind, window in _windows_of_ropes(settings.get_text_config()):
        if config.longest_sequence > window:
            raise ModelError(
                f"{config.model.path}: beyond {window} tokens its rotary embedding ({kind}) depends on the longest row "
                f"that passes through the model beside a row, so log-probs of one response would have several values. "
                f"data.max_prompt_length + rollout.max_response_length (and second turns) come to "
                f"{config.longest_sequence}: stay within {window}"
            )


def read_settings(config: ModelConfig) -> Any:
    """A model's configuration. Raises ModelError."""
    try:
        return AutoConfig.from_pretrained(config.location, trust_remote_code=config.trust_remote_code)
    except Exception as error:  # whatever a class of theirs makes of a file that it was not written for
        if absent := absent_model(config.path, error):
            raise ModelError(absent) from error
        hint = ""
        if "trust_remote_code" in str(error):
            hint = " Read the Python files in that directory; if you trust them, set model.trust_remote_code=true."
        cause = first_sentence(error)
        raise ModelError(f"model.path={config.path}: not a model that transformers can load: {cause}{hint}") from error


def refuse_softcaps(settings: PretrainedConfig, path: str) -> None:
    """Raise ModelError when logits are capped, which neither the learner nor torch's fused attention does."""
    for part in (settings, settings.get_text_config()):
        for name in SOFTCAPS:
            if getattr(part, name, None):
                raise ModelError(
                    f"{path}: {settings.model_type} caps its logits ({name}={getattr(part, name)}), "
                    "which ares does not reproduce"
                )


def logit_scale(settings: PretrainedConfig, tried: Sequence[Sequence[Tensor]]) -> float | None:
    """By what a model multiplies its head's logits: 1, or what a setting says (SCALES); None: by none of these.

    tried: the head's own logits and the model's, small ones and large ones, in which alone a cap would show.
    """
    said = [factor(value) for name, factor in SCALES.items() if (value := getattr(settings, name, None))]
    for scale in (1.0, *said):
        if all(
            torch.allclose(scale * plain, expected, atol=1e-3 * float(plain.abs().max()), rtol=1e-3)
            for plain, expected in tried
        ):
            return scale
    return None


def _refuse_random_routers(settings: PretrainedConfig, model: ModelConfig) -> None:
    """Raise ModelError where a pass of the update would choose other experts than the one it is compared with."""
    if settings.model_type in RANDOM_ROUTERS:
        raise ModelError(
            f"{model.path}: {settings.model_type} trains with a router that draws its experts at random, so one "
            "response has other log-probs in every pass; ares does not train it"
        )
    noise = {name: value for name, value in settings.to_dict().items() if name.endswith("jitter_noise") and value}
    if noise and model.gradient_checkpointing:
        told = ", ".join(f"{name}={value}" for name, value in noise.items())
        raise ModelError(
            f"{model.path}: with model.gradient_checkpointing its layers work as in training, where the router adds "
            f"noise ({told}): set it to 0 in config.json, or model.gradient_checkpointing=false"
        )


def _refuse_experts_in_vllm(settings: PretrainedConfig, config: Config) -> None:
    """Raise ModelError: vLLM agrees with a mixture's files, and no longer once its weights were replaced in place."""
    mixture = any(getattr(settings, name, None) for name in NUMBERS_OF_EXPERTS)
    if mixture and config.rollout.engine == "vllm":
        raise ModelError(
            f"{config.model.path}: {settings.model_type} is a mixture of experts, and vLLM does not take over new "
            "weights of experts rightly (docs/models.md): use rollout.engine=transformers"
        )


def window_of(module: Any) -> int | None:
    """Tokens that a layer's attention sees, itself included, by the model's configuration; None: all before it.

    Some architectures (Qwen2-MoE, Phi-MoE) have the window in their mask only.
    """
    config = getattr(module, "config", None)
    window = getattr(config, "sliding_window", None) or None
    kinds = getattr(config, "layer_types", None)
    number = getattr(module, "layer_idx", None)
    if kinds and number is not None and kinds[number] != "sliding_attention":
        return None
    return window


def _windows_of_ropes(settings: Any) -> Iterator[tuple[str, int]]:
    """Kind and original window of every rope that depends on lengths; some models have several, by kind of layer."""
    written = getattr(settings, "rope_parameters", None) or {}
    for rope in (written, *written.values()):
        kind = rope.get("rope_type", "") if isinstance(rope, dict) else ""
        if any(name in kind for name in BY_LENGTH):
            window = settings.max_position_embeddings
            yield kind, (rope.get("original_max_position_embeddings") or window) if kind == "longrope" else window


def first_sentence(error: BaseException) -> str:
    """Of a library's long message what says the cause, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.partition(". ")[0].rstrip(".") + "."
