"""The device of these tests: each runs on the CPU, small, and, marked gpu, on a CUDA device if there is one.

In a process that has registered the separate device they run only there (test_separate_device.py starts it).
"""

import pytest
import torch

from tests.gpu import separate_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=[separate_device.NAME] if separate_device.registered() else DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device")
    return str(request.param)
