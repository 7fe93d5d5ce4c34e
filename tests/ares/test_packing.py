import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ares.packing import PACK_WIDTH, layout, micro_batches, share_rows

LENGTHS = st.lists(st.integers(1, 700), min_size=1, max_size=40)


@given(lengths=LENGTHS, budget=st.integers(1, 4000), pack=st.booleans())
@settings(deadline=None)
def test_micro_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int, pack: bool) -> None:
    found = micro_batches(torch.tensor(lengths), budget, pack)
    assert sorted(torch.cat(found).tolist()) == list(range(len(lengths)))
    for part in found:
        sizes = [lengths[row] for row in part.tolist()]
        packed = pack and max(sizes) <= PACK_WIDTH
        assert (sum(sizes) if packed else len(sizes) * max(sizes)) <= budget or len(part) == 1


@given(lengths=LENGTHS, pack=st.booleans())
@settings(deadline=None)
def test_every_token_has_a_place_of_its_own_and_rows_lie_whole(lengths: list[int], pack: bool) -> None:
    laid = layout(torch.tensor(lengths), pack)
    assert len(set(laid.place.tolist())) == sum(lengths)
    assert int(laid.place.max()) < laid.lines * laid.width
    assert laid.row.tolist() == [row for row, size in enumerate(lengths) for _ in range(size)]
    assert laid.position.tolist() == [place for size in lengths for place in range(size)]
    same_row = laid.row[1:] == laid.row[:-1]
    assert ((laid.place[1:] - laid.place[:-1])[same_row] == 1).all()
    line = laid.place // laid.width
    assert (line[1:] == line[:-1])[same_row].all()
    ids = laid.position_ids().flatten()
    assert (ids[laid.place] == laid.position).all()
    if laid.packed:
        assert pack
        assert max(lengths) <= PACK_WIDTH


@given(lengths=st.lists(st.integers(1, PACK_WIDTH), min_size=1, max_size=60))
@settings(deadline=None)
def test_packing_never_takes_more_room_than_padding(lengths: list[int]) -> None:
    laid = layout(torch.tensor(lengths), pack=True)
    assert laid.lines * laid.width <= len(lengths) * max(lengths)


def test_skewed_rows_are_packed_tightly() -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = (torch.rand(200, generator=generator).pow(4) * 400).long() + 10
    laid = layout(lengths, pack=True)
    assert laid.lines * laid.width < 1.02 * int(lengths.sum())
    assert laid.width <= 1.1 * PACK_WIDTH


def test_rows_of_one_length_need_no_mask() -> None:
    """Three of them would fill a line as tightly, and be masked from each other for it."""
    assert not layout(torch.full((27,), 152), pack=True).packed


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
def test_ranks_share_rows_so_that_none_has_much_more_to_do(ranks: int) -> None:
    lengths = torch.randint(1, 400, (64,), generator=torch.Generator().manual_seed(1))
    shares = share_rows(lengths, ranks)
    assert sorted(torch.cat(shares).tolist()) == list(range(64))
    loads = [int(lengths[share].sum()) for share in shares]
    assert max(loads) - min(loads) <= int(lengths.max())


def test_more_ranks_than_rows_leave_some_idle() -> None:
    assert sorted(len(share) for share in share_rows(torch.tensor([5, 6]), 3)) == [0, 1, 1]
