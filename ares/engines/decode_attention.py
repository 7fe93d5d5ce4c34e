"""Attention of one new token per row: keys and values are read once for all that share them.

Covered: query heads of one group (grouped-query attention), for which transformers copies keys and values, and the rows
of one prompt. Not covered: prompts themselves and attention that bypasses transformers' interface, which stay as they
are.
"""

from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "ares_decode"


@dataclass(frozen=True)
class SharedPrompts:
    """Keys and values of prompts [prompts, heads, P, D], layer by layer, and the rows [B] that continue them."""

    layers: list[tuple[Tensor, Tensor]]
    hidden: Tensor
    """[prompts, 1, 1, P]: −∞ where a prompt is padding, else 0."""
    prompt_of: Tensor
    """[B] each row's prompt."""
    rows: Tensor
    """[prompts, most] each prompt's rows, padded with row 0."""
    place: Tensor
    """[B] where a row stands in `rows`, flattened."""

    @classmethod
    def of(cls, layers: list[tuple[Tensor, Tensor]], hidden: Tensor, prompt_of: Tensor) -> Self:
        """Every prompt must have a row."""
        order = prompt_of.argsort(stable=True)
        counts = prompt_of.bincount()
        most = int(counts.max())
        ordered = prompt_of[order]
        places = ordered * most + torch.arange(len(order)) - (counts.cumsum(0) - counts)[ordered]
        rows = torch.zeros(len(counts) * most, dtype=torch.long)
        rows[places] = order
        return cls(layers, hidden, prompt_of, rows.view(-1, most), torch.empty_like(order).scatter_(0, order, places))

    def keep(self, going: Tensor) -> Self:
        """Only these rows (bool [B]), with the prompts that they need."""
        used, prompt_of = self.prompt_of[going].unique(return_inverse=True)
        if len(used) == len(self.hidden):
            return self.of(self.layers, self.hidden, prompt_of)
        return self.of([(keys[used], values[used]) for keys, values in self.layers], self.hidden[used], prompt_of)

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float | None) -> Tensor:
        """Attention of query [B, heads, group, D] to its row's prompt, then to its own key and value [B, heads, T, D].

        Two softmaxes, each weighted by its normalising sum, make one (Milakov and Gimelshein 2018).
        """
        prompts, most = self.rows.shape
        _, heads, group, size = query.shape
        together = query[self.rows].transpose(1, 2).reshape(prompts, heads, most * group, size)
        to_prompt, prompt_sum = _attention(together, *self.layers[layer], self.hidden.to(query.dtype), scale)
        to_prompt = to_prompt.view(prompts, heads, most, group, size).transpose(1, 2).flatten(0, 1)[self.place]
        prompt_sum = prompt_sum.view(prompts, heads, most, group).transpose(1, 2).flatten(0, 1)[self.place]
        to_own, own_sum = _attention(query, key, value, None, scale)
        return torch.lerp(to_own, to_prompt, torch.sigmoid(prompt_sum - own_sum)[..., None].to(query.dtype))


def _attention(
    query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None, scale: float | None
) -> tuple[Tensor, Tensor]:
    """Attention and the logarithm of each softmax's sum, on a CPU."""
    attended: tuple[Tensor, Tensor] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query, key, value, attn_mask=hidden, scale=scale
    )
    return attended


def decode_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # some architectures pass it by name
    shared_prompts: SharedPrompts | None = None,
    **how: Any,
) -> tuple[Tensor, None]:
    """Attention like transformers' sdpa. query: [B, query heads, N, D]; key, value: [B, heads, T, D].

    `shared_prompts`: what precedes `key` and `value` in every row. Returns [B, N, query heads, D].
    """
    batch, heads, tokens, size = query.shape
    group = heads // key.shape[1]
    folded = query.reshape(batch, key.shape[1], group, size) if tokens == 1 else None
    if shared_prompts is not None:
        assert folded is not None
        out = shared_prompts.attend(module.layer_idx, folded, key, value, how.get("scaling"))
    elif folded is None or group == 1 or how.get("position_bias") is not None or not _same_for_heads(attention_mask):
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **how)
    else:
        out = scaled_dot_product_attention(folded, key, value, attention_mask, scale=how.get("scaling"))
    return out.reshape(batch, 1, heads, out.shape[-1]), None


def _same_for_heads(mask: Tensor | None) -> bool:
    return mask is None or mask.shape[1] == 1


AttentionInterface.register(NAME, decode_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
