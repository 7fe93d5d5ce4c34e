"""Attention of packed rows, computed row by row (no token sees another row's, and no mask is built), and of the one new
token of each row while sampling (no key is copied for the query heads that share it).

Covered: transformers' decoders that attend through SDPA, to everything before or within a sliding window. Not covered:
other attention (chunks, states carried along the sequence), which `can_regroup` refuses or `prepare_packing` notices.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from ares.models.architecture import window_of
from ares.models.packing import Layout
from ares.models.transformers_internals import uses_attention_interface

NAME = "ares_rows"
KNOWN_LAYERS = {"full_attention", "sliding_attention"}


def can_regroup(decoder: Any) -> bool:
    """Whether a decoder's attention goes through transformers' interface and is of a kind that is known here."""
    config = decoder.config
    return (
        uses_attention_interface(decoder, "sdpa", NAME)
        and set(getattr(config, "layer_types", None) or ()) <= KNOWN_LAYERS
        and getattr(config, "attention_chunk_size", None) is None
    )


def regroup(decoder: Any) -> None:
    """From now on the decoder takes a `layout` beside its packed sequence; without one it attends as before, where
    query heads share keys only up to float rounding."""
    decoder.set_attn_implementation(NAME)


@contextmanager
def narrow_windows(decoder: Any, tokens: int) -> Iterator[None]:
    """Temporarily set sliding windows to this many tokens, in the configuration and the layers that hold one."""
    held = [(owner, owner.sliding_window) for owner in (decoder.config, *decoder.modules()) if _window(owner)]
    for owner, _ in held:
        owner.sliding_window = tokens
    try:
        yield
    finally:
        for owner, window in held:
            owner.sliding_window = window


def _window(owner: Any) -> int | None:
    window = getattr(owner, "sliding_window", None)
    return window if isinstance(window, int) else None


def no_mask(device: torch.device) -> Tensor:
    """An attention mask that transformers passes on unchanged; given a layout, attention ignores it."""
    return torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)


def row_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # some architectures pass it by name
    layout: Layout | None = None,
    **how: Any,
) -> tuple[Tensor, None]:
    """Causal attention within rows. query, key, value: [1, heads, N, D], packed; returns [1, N, heads, D].

    Without a layout: SDPA of query [B, heads, N, D]; returns [B, N, heads, D].
    """
    sdpa = ALL_ATTENTION_FUNCTIONS["sdpa"]
    if layout is None:
        one_mask = (attention_mask is None or attention_mask.shape[1] == 1) and how.get("position_bias") is None
        if query.shape[2] == 1 and query.shape[1] > key.shape[1] and one_mask and not module.training:
            return _attend_in_groups(query, key, value, attention_mask, how.get("scaling")), None
        return sdpa(module, query, key, value, attention_mask, **how)
    window = how.get("sliding_window") or window_of(module)
    met = []
    for block in layout.blocks:
        spread = (_rows(states, block) for states in (query, key, value))
        out, _ = sdpa(module, *spread, _band(block, window), **how)
        met.append(out.flatten(0, 1))
    return (met[0] if len(met) == 1 else torch.cat(met)).index_select(0, layout.first_met)[None], None


def _attend_in_groups(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None) -> Tensor:
    """Attention of one token a row, query [B, heads, 1, D], to keys of fewer heads [B, groups, T, D]: [B, 1, heads, D].

    The heads of a group are queries of its one key head, which SDPA would otherwise be given once for each of them.
    """
    rows, heads, _, size = query.shape
    grouped = query.reshape(rows, key.shape[1], -1, size)
    met = torch.nn.functional.scaled_dot_product_attention(grouped, key, value, attn_mask=mask, scale=scale)
    return met.reshape(rows, 1, heads, -1)


def _rows(states: Tensor, block: Tensor) -> Tensor:
    """States [1, heads, tokens, D] of a packed sequence as [rows, heads, longest, D]."""
    _, heads, tokens, size = states.shape
    line = states[0].transpose(0, 1).reshape(tokens, heads * size)
    return line.index_select(0, block.flatten()).view(*block.shape, heads, size).transpose(1, 2)


def _band(block: Tensor, window: int | None) -> Tensor | None:
    """[longest, longest] of the tokens that a sliding window shows; None if it shows all earlier ones."""
    longest = block.shape[1]
    if window is None or longest <= window:
        return None
    back = torch.arange(longest, device=block.device)[:, None] - torch.arange(longest, device=block.device)
    return ((back >= 0) & (back < window))[None, None]


AttentionInterface.register(NAME, row_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
