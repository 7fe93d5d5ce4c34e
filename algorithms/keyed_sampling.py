"""Keyed sampling: the uniform draw of (seed, position) is a hash, so there is no generator state to save or restore.

A row's draws depend only on its own seed, not on other rows, and the global RNG is never touched.
"""

import torch

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


def keyed_uniform(seeds: torch.Tensor, position: int | torch.Tensor) -> torch.Tensor:
    """The uniform draw in [0, 1) of each row at a position (SplitMix64; Steele et al. 2014).

    seeds: [B] int64; position: a number, or int64 positions to broadcast with. Returns float64 of the common shape.
    """
    x = seeds + torch.full_like(seeds, _GOLDEN) * (position + 1)  # integer tensors wrap; Python integers do not
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    x = x ^ _shift_right(x, 31)
    return _shift_right(x, 11).to(torch.float64) * 2.0**-53


def sample_tokens(
    logits: torch.Tensor, uniform: torch.Tensor, temperature: float, top_p: float = 1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one token per row by inverting the cumulative distribution; temperature 0 takes the most probable.

    logits: [B, V]; uniform: [B] in [0, 1). Returns tokens [B] int64 and their log-probs [B] float32 under the
    distribution at this temperature, before top-p is applied.
    """
    log_probs = torch.log_softmax(logits.float() / (temperature or 1.0), -1)
    tokens = draw_tokens(nucleus(log_probs.double().exp(), top_p), uniform) if temperature else log_probs.argmax(-1)
    return tokens, log_probs.gather(-1, tokens[:, None])[:, 0]


def nucleus(probs: torch.Tensor, top_p: float) -> torch.Tensor:
    """The most probable tokens that have the share top_p of the probability; the others' is 0. probs: [B, V]."""
    if top_p >= 1:
        return probs
    ordered, order = probs.sort(-1, descending=True)
    dropped = ordered.cumsum(-1) - ordered >= top_p
    return probs.masked_fill(dropped.gather(-1, order.argsort(-1)), 0.0)


def draw_tokens(probs: torch.Tensor, uniform: torch.Tensor) -> torch.Tensor:
    """The first token whose cumulative probability exceeds the draw: probs [B, V], of any sum; uniform [B] → [B].

    Where probabilities are NaN it is the last token, whose log-prob then is NaN too.
    """
    cumulative = probs.double().cumsum(-1)
    whole = cumulative[:, -1]
    # Rounded up to the whole, a draw would go past the last token with mass.
    drawn = torch.minimum(uniform * whole, torch.nextafter(whole, torch.zeros_like(whole)))
    tokens = torch.searchsorted(cumulative, drawn[:, None], right=True)[:, 0]
    return tokens.clamp(max=probs.shape[-1] - 1)


def _shift_right(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical shift of signed 64-bit integers."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
