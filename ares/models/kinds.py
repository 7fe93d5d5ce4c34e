"""The table of model families (model.family); their interface is in ares/models/policy_model.py."""

import torch

from ares.config import Config
from ares.models.causal import LanguageModel
from ares.models.masked_diffusion import MaskedLanguageModel
from ares.models.policy_model import PolicyModel
from ares.models.vision_language import VisionLanguageModel

KINDS: dict[str, type[PolicyModel]] = {
    "causal": LanguageModel,
    "vision_language": VisionLanguageModel,
    "masked_diffusion": MaskedLanguageModel,
}


def load_model(config: Config, device: torch.device) -> PolicyModel:
    """The model of a run. Raises ModelError."""
    return KINDS[config.model.family].load(config.model, device, config.data)
