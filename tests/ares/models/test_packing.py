from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.models.packing import SIMILAR, RowSizes, layout, micro_batches, share_rows

GROUP = st.tuples(st.integers(1, 300), st.lists(st.integers(1, 400), min_size=1, max_size=8))
"""Lengths of a prompt and of its responses."""
GROUPS = st.lists(GROUP, min_size=1, max_size=8)


def sizes(groups: list[tuple[int, list[int]]]) -> RowSizes:
    rows = [(prompt + response, prompt, number) for number, (prompt, own) in enumerate(groups) for response in own]
    return RowSizes(*torch.tensor(rows).T)


def cost(of: RowSizes) -> int:
    """Tokens of packed rows, with a prompt counted once for consecutive rows that share it."""
    total, before = 0, None
    for tokens, prompt, group in zip(of.tokens.tolist(), of.prompts.tolist(), of.group.tolist(), strict=True):
        total += tokens - prompt * (group == before)
        before = group
    return total


@given(groups=GROUPS, budget=st.integers(1, 4000), pack=st.booleans())
@settings(deadline=None, max_examples=40)
def test_micro_batches_hold_every_row_once_within_the_budget(groups: Any, budget: int, pack: bool) -> None:
    rows = sizes(groups)
    parts = micro_batches(rows, budget, pack)
    assert sorted(torch.cat(parts).tolist()) == list(range(len(rows)))
    for part in parts:
        taken = cost(rows[part]) if pack else len(part) * int(rows.tokens[part].max())
        assert taken <= budget or len(part) == 1


@given(groups=GROUPS)
@settings(deadline=None, max_examples=40)
def test_rows_of_one_prompt_pass_together_as_long_as_the_budget_lasts(groups: Any) -> None:
    rows = sizes(groups)
    (whole,) = micro_batches(rows, cost(rows))
    assert cost(rows[whole]) == cost(rows)


@given(groups=GROUPS, pack=st.booleans())
@settings(deadline=None, max_examples=40)
def test_every_token_has_a_place_and_only_a_repeated_prompt_shares_it(groups: Any, pack: bool) -> None:
    rows = sizes(groups)
    laid = layout(rows, pack)
    assert laid.sequences * laid.width == (cost(rows) if pack else len(rows) * int(rows.tokens.max()))
    assert laid.row.tolist() == [row for row, size in enumerate(rows.tokens.tolist()) for _ in range(size)]
    assert laid.position.tolist() == [place for size in rows.tokens.tolist() for place in range(size)]
    owners: dict[int, set[tuple[int, int]]] = {}
    for place, row, position in zip(laid.place.tolist(), laid.row.tolist(), laid.position.tolist(), strict=True):
        prompt = pack and position < rows.prompts[row]
        owners.setdefault(place, set()).add((int(rows.group[row]) if prompt else -1 - row, position))
    assert all(len(tokens) == 1 for tokens in owners.values())
    assert (laid.position_ids().flatten()[laid.place] == laid.position).all()


@given(groups=GROUPS)
@settings(deadline=None, max_examples=40)
def test_blocks_hold_each_row_from_its_left_edge_beside_rows_of_similar_length(groups: Any) -> None:
    rows = sizes(groups)
    laid = layout(rows, pack=True)
    lengths = rows.tokens.tolist()
    by_row = sorted(map(tuple, (part.tolist() for part in laid.place.split(lengths))))
    starts, at = [], sorted(lengths, reverse=True)
    for block in laid.blocks:
        taken, at = at[: len(block)], at[len(block) :]
        assert block.shape[1] == taken[0]
        assert taken[-1] >= SIMILAR * taken[0]
        starts += [tuple(places[:length]) for places, length in zip(block.tolist(), taken, strict=True)]
    assert sorted(starts) == by_row
    flat = torch.cat([block.flatten() for block in laid.blocks])
    assert (flat[laid.first_met] == torch.arange(laid.width)).all()


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_ranks_share_rows_so_that_none_has_much_more_to_do(ranks: int) -> None:
    lengths = torch.randint(1, 400, (64,), generator=torch.Generator().manual_seed(1))
    shares = share_rows(RowSizes.alone(lengths), ranks)
    assert sorted(torch.cat(shares).tolist()) == list(range(64))
    loads = [int(lengths[share].sum()) for share in shares]
    assert max(loads) - min(loads) <= int(lengths.max())


def test_a_prompt_stays_on_one_rank_unless_that_makes_another_wait() -> None:
    even = sizes([(30, [100] * 4)] * 6)
    assert {len(set(even.group[share].tolist())) for share in share_rows(even, 2)} == {3}
    two = sizes([(30, [100] * 4)] * 2)
    assert [len(share) for share in share_rows(two, 4)] == [2, 2, 2, 2]


def test_more_ranks_than_rows_leave_some_idle() -> None:
    assert sorted(len(share) for share in share_rows(RowSizes.alone(torch.tensor([5, 6])), 3)) == [0, 1, 1]
