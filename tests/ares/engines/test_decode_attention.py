"""Attention that reads shared keys and values once, against torch's over copies of them, for any shape."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from ares.engines.decode_attention import SharedPrompts, decode_attention

torch.set_num_threads(1)
SIZES = st.sampled_from([8, 16, 32, 64])


class Heads(nn.Module):
    """The attributes that attention reads from a layer."""

    layer_idx = 0
    is_causal = True

    def __init__(self, group: int) -> None:
        super().__init__()
        self.num_key_value_groups = group


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def padding(lengths: list[int]) -> Tensor:
    """bool [B, 1, 1, longest] of left-padded rows."""
    back = torch.arange(max(lengths), 0, -1)
    return (back <= torch.tensor(lengths)[:, None])[:, None, None]


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 50), min_size=1, max_size=6),
    heads=st.integers(1, 3),
    group=st.integers(1, 7),
    size=SIZES,
    masked=st.booleans(),
)
def test_query_heads_of_a_group_attend_as_to_copies_of_their_keys(
    lengths: list[int], heads: int, group: int, size: int, masked: bool
) -> None:
    batch, tokens = len(lengths), max(lengths)
    query = numbers(batch, 1, heads * group, size).transpose(1, 2)
    key, value = numbers(2, batch, heads, tokens + 3, size, seed=1)[..., :tokens, :].unbind()
    mask = padding(lengths) if masked else None
    found, _ = decode_attention(Heads(group), query, key, value, mask, scaling=0.3)
    expected, _ = sdpa_attention_forward(Heads(group), query, key, value, mask, scaling=0.3)
    if group == 1:
        assert torch.equal(found, expected)
    torch.testing.assert_close(found, expected, atol=2e-6, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), heads=st.integers(1, 3), group=st.integers(1, 4), size=SIZES, own=st.integers(1, 20))
def test_rows_attend_to_a_shared_prompt_as_to_a_copy_of_it_also_when_rows_have_left(
    data: st.DataObject, heads: int, group: int, size: int, own: int
) -> None:
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    further = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=6))
    prompt_of = torch.tensor(data.draw(st.permutations([*range(len(lengths)), *further])))
    going = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(prompt_of), max_size=len(prompt_of))))
    seen = padding(lengths)
    hidden = torch.zeros(seen.shape).masked_fill_(~seen, float("-inf"))
    prompt_key, prompt_value = numbers(2, len(lengths), heads, max(lengths), size)
    shared = SharedPrompts.of([(prompt_key, prompt_value)], hidden, prompt_of)
    rows = torch.arange(len(prompt_of))
    for kept in (rows, rows[going]) if going.any() else (rows,):
        shared = shared.keep(going) if len(kept) < len(rows) else shared
        query = numbers(len(rows), heads * group, 1, size, seed=1)[kept]
        key, value = 2 * numbers(2, len(rows), heads, own, size, seed=2)[:, kept]
        found, _ = decode_attention(Heads(group), query, key, value, None, shared_prompts=shared)
        copies = [
            torch.cat([of_prompt[prompt_of[kept]], of_row], 2).repeat_interleave(group, 1)
            for of_prompt, of_row in ((prompt_key, key), (prompt_value, value))
        ]
        all_seen = torch.cat([seen[prompt_of[kept]], torch.ones(len(kept), 1, 1, own, dtype=torch.bool)], -1)
        expected = scaled_dot_product_attention(query, *copies, all_seen).transpose(1, 2)
        torch.testing.assert_close(found, expected, atol=4e-6, rtol=1e-5)


def test_prompts_without_rows_are_given_up() -> None:
    """Prompts kept for rows that have left would be read for every token."""
    keys = numbers(3, 1, 5, 8)
    shared = SharedPrompts.of([(keys, keys)], torch.zeros(3, 1, 1, 5), torch.tensor([0, 1, 1, 2]))
    kept = shared.keep(torch.tensor([False, True, False, True]))
    assert torch.equal(kept.layers[0][0], keys[1:])
    assert kept.prompt_of.tolist() == [0, 1]
