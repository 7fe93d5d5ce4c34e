"""The models that are trained: log-probs over packed sequences, adapters, sharding.

Covered: causal, masked-diffusion and vision-language models behind one interface. Not covered: the update
(ares/learner), sampling (ares/engines).
"""

import torch

from ares.config import Config
from ares.models.architecture import ModelError, read_settings
from ares.models.causal import Critic, LanguageModel
from ares.models.lora import adapted_layers, add_adapters, merged_weights, peft_settings, without_adapters
from ares.models.masked_diffusion import MaskedLanguageModel, mask_token_id
from ares.models.memory import SETTINGS_AGAINST, naming_settings, return_free_memory, warn_of_memory
from ares.models.packed_attention import can_regroup, regroup
from ares.models.packing import RowSizes, micro_batches, share_rows
from ares.models.policy_model import Pass, PolicyModel
from ares.models.sharding import shard
from ares.models.transformers_internals import growing_cache
from ares.models.vision_language import VisionInputs, VisionLanguageModel, placeholder_ids
from ares.models.weights import (
    PUBLISHED_AS,
    check_vocabulary,
    check_weight_files,
    checked_model,
    empty_model,
    persistent_buffers,
    quiet_transformers,
    read_weights,
    stored_tensors,
)

FAMILIES: dict[str, type[PolicyModel]] = {
    "causal": LanguageModel,
    "vision_language": VisionLanguageModel,
    "masked_diffusion": MaskedLanguageModel,
}
"""model.family → its class; their interface is in ares/models/policy_model.py."""


def load_model(config: Config, device: torch.device) -> PolicyModel:
    """The model of a run. Raises ModelError."""
    return FAMILIES[config.model.family].load(config.model, device, config.data)
