"""The model's side of sampling: prompts are read, then every row gets one token at a time.

Covered: the key-value cache, positions and masks of a batch that loses rows. On a CPU a long prompt that several rows
share is stored once, if the model allows it. Not covered: choosing the tokens (ares/engines/transformers.py).
"""

from typing import Any

import torch
from torch import Tensor

from ares.engines.decode_attention import NAME, SharedPrompts
from ares.engines.growing_cache import GrowingLayer, growing_cache

LONG_PROMPT = 64
"""Tokens from which a prompt is stored once; below, the rows' own tokens outweigh it."""


class Decoding:
    """The unfinished rows of a call. `share`: their prompts may be stored once."""

    def __init__(self, model: Any, share: bool) -> None:
        self.model = model
        self.share = share
        self.cache = growing_cache(model.config)
        self.shared: SharedPrompts | None = None

    def read(self, inputs: dict[str, Tensor], mask: Tensor, prompt_of: Tensor) -> Tensor:
        """Logits [B, V] of the first token of each row. inputs: prompts [P, T]; mask: [P, T]; prompt_of: [B]."""
        logits = self._logits(mask, inputs)
        self.positions = inputs["position_ids"][..., prompt_of, -1:]
        if self.share and len(prompt_of) > len(mask) and all(map(_can_share, self.cache.layers)):
            hidden = torch.zeros(mask.shape).masked_fill_(mask == 0, float("-inf"))[:, None, None]
            layers = [(layer.keys, layer.values) for layer in self.cache.layers]
            self.shared = SharedPrompts.of(layers, hidden, prompt_of)
            self.cache = growing_cache(self.model.config)
            # transformers passes a mask of four dimensions on unchanged: this one hides none of a row's own tokens.
            self.mask = torch.ones(1, 1, 1, 1, dtype=torch.bool)
        else:
            self.mask = mask[prompt_of]
            self.cache.batch_select_indices(prompt_of)
        return logits[prompt_of]

    def answer(self, drawn: Tensor) -> Tensor:
        """Logits [B, V] of the token after each row's latest, drawn [B]."""
        self.positions = self.positions + 1
        inputs = {"input_ids": drawn[:, None], "position_ids": self.positions}
        if self.shared is not None:
            return self._logits(self.mask, inputs, shared_prompts=self.shared)
        self.mask = torch.nn.functional.pad(self.mask, (0, 1), value=1)
        return self._logits(self.mask, inputs)

    def keep(self, going: Tensor) -> None:
        """Keep only these rows (bool [B])."""
        self.positions = self.positions[..., going, :]
        self.cache.batch_select_indices(going.nonzero()[:, 0])
        if self.shared is not None:
            self.shared = self.shared.keep(going)
        else:
            self.mask = self.mask[going]

    def _logits(self, mask: Tensor, inputs: dict[str, Tensor], **how: Any) -> Tensor:
        passed = self.model(
            attention_mask=mask, past_key_values=self.cache, use_cache=True, logits_to_keep=1, **inputs, **how
        )
        logits: Tensor = passed.logits[:, -1]
        return logits


def read_once(model: Any) -> bool:
    """Make a model's decoder read keys and values once for all heads that share them; returns whether it can."""
    decoder = model.get_decoder()
    if not getattr(decoder, "_supports_attention_backend", False) or decoder.config._attn_implementation != "sdpa":
        return False
    decoder.config._attn_implementation = NAME
    return True


def _can_share(layer: Any) -> bool:
    """Whether a layer that has read the prompts holds all their keys and values, both of one size."""
    return isinstance(layer, GrowingLayer) and _size(layer.keys) == _size(layer.values)


def _size(states: Tensor | None) -> int | None:
    return None if states is None else states.shape[-1]


@torch.no_grad()
def shares_prompts(model: Any, inputs: dict[str, Tensor], mask: Tensor) -> bool:
    """Whether rows that share a prompt's cache get the same logits as without sharing, tried on some prompts.

    Architectures with a form of attention unknown here would silently mix up tokens.
    """
    prompt_of = torch.arange(len(mask)).repeat_interleave(2)
    tried = []
    for share in (False, True):
        decoding = Decoding(model, share)
        logits = decoding.read(inputs, mask, prompt_of)
        drawn, vocabulary = logits.argmax(-1), logits.shape[-1]
        tried.append(torch.stack([decoding.answer((drawn + row) % vocabulary) for row in range(2)]).float())
    plain, shared = tried
    rounding = 1e-3 if model.dtype == torch.float32 else 5e-2
    return torch.allclose(plain, shared, atol=rounding * float(plain.abs().max()), rtol=0)
