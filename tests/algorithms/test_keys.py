import subprocess
import sys

from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.keys import derive_seed
from tests.ares.builders import REPOSITORY

PARTS = st.lists(st.one_of(st.integers(-5, 5), st.text(max_size=4)), min_size=1, max_size=4)


@given(one=PARTS, other=PARTS)
@settings(deadline=None)
def test_keys_are_equal_exactly_where_their_parts_are(one: list[str | int], other: list[str | int]) -> None:
    separated = any("\x1f" in part for part in [*one, *other] if isinstance(part, str))
    if not separated:
        assert (derive_seed(*one) == derive_seed(*other)) == (one == other)
    assert 0 <= derive_seed(*one) < 2**63


def test_a_key_is_the_same_in_another_process() -> None:
    program = "from algorithms.keys import derive_seed; print(derive_seed(7, 'rollout', 3, 'p1'))"
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True,
        env={"PYTHONHASHSEED": "12345"},
    )  # fmt: skip
    assert int(process.stdout) == derive_seed(7, "rollout", 3, "p1")
