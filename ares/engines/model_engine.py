"""Base of the engines that run a transformers model themselves: loading weights, padding prompts.

Not covered: how they sample (ares/engines/transformers.py, ares/engines/diffusion.py).
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from ares.config import Config
from ares.engines.engine import Engine, check_weights
from ares.models import stored_tensors


class ModelEngine(Engine):
    """An engine whose model is in this process."""

    model: nn.Module
    device: torch.device
    pad_id: int

    @torch.no_grad()
    def load_weights(self, version: int, weights: dict[str, Tensor]) -> None:
        """Take over the weights of a policy version. Raises ValueError when names or shapes do not fit."""
        own = stored_tensors(self.model)
        # Before anything is copied: copy_ would broadcast a row over a matrix.
        check_weights({name: tensor.shape for name, tensor in own.items()}, weights)
        for name, tensor in own.items():
            tensor.copy_(weights[name])
        self.version = version

    def padded(self, prompts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """`left_padded`, on the engine's device."""
        ids, mask = left_padded(prompts, self.pad_id)
        return ids.to(self.device), mask.to(self.device)


def left_padded(prompts: Sequence[Sequence[int]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Token ids, left-padded to the longest prompt, and their attention mask: int64 [B, P] each."""
    longest = max(map(len, prompts))
    ids = np.full((len(prompts), longest), pad_id)
    mask = np.zeros((len(prompts), longest), dtype=np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = prompt
        mask[row, longest - len(prompt) :] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


def device_of(config: Config) -> str:
    """The device of such a model."""
    return "cuda" if torch.cuda.is_available() and config.learner.device != "cpu" else "cpu"


def padding_id(tokenizer: PreTrainedTokenizerBase) -> int:
    """The token that prompts are padded with; masked, so any will do where the tokenizer has none."""
    return int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0)
