"""A sandbox for the tests of rows with programs."""

from collections.abc import Iterator

import pytest

from sandbox import SandboxPool


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with SandboxPool(num_workers=1) as pool:
        yield pool
