"""The model's side of sampling: prompts are read, then every row gets one token at a time.

Covered: the key-value cache, positions and masks of a batch that loses rows. A prompt that several rows share is read
once. Not covered: choosing the tokens (ares/engines/transformers.py).
"""

from typing import Any

import torch
from torch import Tensor

from ares.models import growing_cache


class Decoding:
    """The unfinished rows of a call."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.cache = growing_cache(model.config)

    def read(self, inputs: dict[str, Tensor], mask: Tensor, prompt_of: Tensor) -> Tensor:
        """Logits [B, V] of the first token of each row. inputs: prompts [P, T]; mask: [P, T]; prompt_of: [B]."""
        logits = self._logits(mask, inputs)
        self.positions = inputs["position_ids"][..., prompt_of, -1:]
        self.mask = mask[prompt_of]
        self.cache.batch_select_indices(prompt_of)
        return logits[prompt_of]

    def answer(self, drawn: Tensor) -> Tensor:
        """Logits [B, V] of the token after each row's latest, drawn [B]."""
        self.positions = self.positions + 1
        self.mask = torch.nn.functional.pad(self.mask, (0, 1), value=1)
        return self._logits(self.mask, {"input_ids": drawn[:, None], "position_ids": self.positions})

    def keep(self, going: Tensor) -> None:
        """Keep only these rows (bool [B])."""
        self.positions = self.positions[..., going, :]
        self.cache.batch_select_indices(going.nonzero()[:, 0])
        self.mask = self.mask[going]

    def _logits(self, mask: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        passed = self.model(attention_mask=mask, past_key_values=self.cache, use_cache=True, logits_to_keep=1, **inputs)
        logits: Tensor = passed.logits[:, -1]
        return logits
