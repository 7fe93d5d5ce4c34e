"""Low-rank adapters (LoRA, arXiv 2106.09685) by peft: only they are trained; the reference is the model without them.

Covered: adding adapters, listing the adapted layers, switching adapters off, merged weights under the base's own names
(for engines and exports). Not covered: quantised bases, several adapters, masked diffusion.
"""

import copy
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ares.config import ModelConfig
from ares.models.architecture import ModelError, first_sentence
from ares.models.policy_model import PolicyModel

if TYPE_CHECKING:
    from peft import LoraConfig as PeftLoraConfig


def add_adapters(model: Any, config: ModelConfig) -> None:
    """Add adapters to the model, in place; only they take gradients. At first they change nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # lora_A starts at random, equal in every process
        model.add_adapter(peft_settings(config))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_("lora_" in name)


def peft_settings(config: ModelConfig) -> "PeftLoraConfig":
    """peft's configuration of the adapters in config.lora. A vision tower gets none unless it is trained: Qwen2.5-VL's
    has layers of the same names as the decoder's."""
    from peft import LoraConfig as PeftLoraConfig  # takes half a second: imported only with model.lora

    lora = config.lora
    assert lora is not None
    looks_only = config.family == "vision_language" and not config.train_vision
    return PeftLoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        target_modules=list(lora.targets),
        exclude_modules=r"(.*\.)?visual\..*" if looks_only else None,
        task_type="CAUSAL_LM",
    )


def adapted_layers(model: Any, config: ModelConfig) -> str:
    """Add adapters to a model on the meta device; says which layers they adapt, how often, and what they train.

    Raises ModelError where no layer has the name of a target.
    """
    from peft import inject_adapter_in_model

    assert config.lora is not None
    parameters = sum(parameter.numel() for parameter in model.parameters())
    try:
        inject_adapter_in_model(peft_settings(config), model, low_cpu_mem_usage=True)
    except ValueError as error:
        raise ModelError(f"model.lora.targets={', '.join(config.lora.targets)}: {first_sentence(error)}") from error
    places = [name for name, _ in model.named_parameters() if ".lora_A." in name]
    layers = Counter(name.partition(".lora_A.")[0].rpartition(".")[2] for name in places)
    trained = sum(parameter.numel() for name, parameter in model.named_parameters() if "lora_" in name)
    told = ", ".join(f"{name} × {count}" for name, count in layers.items())
    return f"LoRA trains {100 * trained / parameters:.3g} % of {parameters:,} parameters: {told}"


@contextmanager
def adapters_off(model: Any) -> Iterator[None]:
    """Inside, or in a function that it decorates, the base model."""
    model.disable_adapters()
    try:
        yield
    finally:
        model.enable_adapters()


@torch.no_grad()
def merged_weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """Weights with the adapters merged in, one after the other, under the names of the model without adapters."""
    from peft.tuners.lora import LoraLayer

    layers: list[Any] = [module for module in model.modules() if isinstance(module, LoraLayer)]
    # Experts are parameters of one module, not layers: peft wraps the module once for each adapted parameter.
    adapted = {getattr(layer.get_base_layer(), getattr(layer, "parameter_name", "weight")): layer for layer in layers}
    for name, parameter in model.named_parameters():
        if "lora_" not in name:
            layer = adapted.get(parameter)
            merged = parameter if layer is None else parameter + layer.get_delta_weight("default")
            yield name.replace(".base_layer", ""), merged.detach()


def _call(policy: PolicyModel, method: str, *given: Any) -> Any:
    return getattr(policy, method)(*given)  # looked up now: sharding replaces it


def without_adapters(policy: PolicyModel) -> PolicyModel:
    """The reference of a policy with adapters: the same model with them switched off. It takes no memory."""
    reference, off = copy.copy(policy), adapters_off(policy.model)
    for name in ("token_log_probs", "scored"):
        setattr(reference, name, off(partial(_call, policy, name)))
    return reference
