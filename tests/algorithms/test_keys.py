import itertools

from algorithms.keys import derive_seed

PARTS = ["", "1", "2", "12", "a", 1, 2, 12, -1]


def test_keys_are_equal_exactly_where_their_parts_are() -> None:
    parts = [some for count in (1, 2, 3) for some in itertools.product(PARTS, repeat=count)]
    seeds = {derive_seed(*some) for some in parts}
    assert len(seeds) == len(parts) > 800
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_key_is_the_same_in_every_process_and_version() -> None:
    assert derive_seed(7, "rollout", 3, "p1") == 4_750_558_319_441_235_903
