"""The device of these tests: each runs on the CPU, small, and, marked gpu, on a CUDA device if there is one.

In a process that has registered the separate device they run only there (test_separate_device.py starts it).
"""

import pytest
import torch

from tests.gpu import separate_device

CUDA = pytest.param("cuda", marks=pytest.mark.gpu)
OTHERS = [separate_device.NAME] if separate_device.registered() else [CUDA]


def found(device: str) -> str:
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return device


@pytest.fixture(params=OTHERS if separate_device.registered() else ["cpu", CUDA])
def device(request: pytest.FixtureRequest) -> str:
    return found(request.param)


@pytest.fixture(params=OTHERS)
def other_device(request: pytest.FixtureRequest) -> str:
    """For what only repeats itself on a CPU."""
    return found(request.param)
