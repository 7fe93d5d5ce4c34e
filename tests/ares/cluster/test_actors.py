"""How actors share a GPU, tested without one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ares.cluster.actors import EngineActor
from tests.ares.builders import config


@pytest.mark.parametrize(("placement", "expected"), [("colocate", ["slept", "freed"]), ("split", ["slept"])])
def test_an_engine_that_shares_a_gpu_frees_what_torch_has_cached(
    placement: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The learner does so itself, at the end of every call (tests/gpu/on_separate_device.py)."""
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: seen.append("freed"))
    actor: Any = object.__new__(EngineActor)  # its constructor would load a model
    actor.config = config(f"rollout.placement={placement}")
    actor.engine = SimpleNamespace(sleep=lambda: seen.append("slept"))
    actor.sleep()
    assert seen == expected
