import itertools
import subprocess
import sys

from algorithms.keys import derive_seed
from tests.ares.builders import REPOSITORY

PARTS = ["", "1", "2", "12", "a", 1, 2, 12, -1]


def test_keys_are_equal_exactly_where_their_parts_are() -> None:
    parts = [some for count in (1, 2, 3) for some in itertools.product(PARTS, repeat=count)]
    seeds = {derive_seed(*some) for some in parts}
    assert len(seeds) == len(parts) > 800
    assert seeds == {derive_seed(*some) for some in parts}
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_key_is_the_same_in_another_process() -> None:
    program = "from algorithms.keys import derive_seed; print(derive_seed(7, 'rollout', 3, 'p1'))"
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": "12345"},
    )  # fmt: skip
    assert int(process.stdout) == derive_seed(7, "rollout", 3, "p1")
