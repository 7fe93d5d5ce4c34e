"""How actors share a GPU, tested without one."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ares.workers.actors import EngineActor, LearnerActor
from tests.ares.builders import config


def made(actor: type, placement: str, **parts: Any) -> Any:
    """An actor without its constructor, which would load a model."""
    found: Any = object.__new__(actor)
    vars(found).update(config=config(f"rollout.placement={placement}"), **parts)
    return found


@pytest.mark.parametrize(("placement", "given_back"), [("colocate", ["done", "given back"]), ("split", ["done"])])
@pytest.mark.parametrize("asked", ["weights", "weights_in_place", "sleep"])
def test_who_shares_a_gpu_gives_back_what_torch_keeps_for_later_when_its_turn_ends(
    placement: str, given_back: list[str], asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine wakes when it has the learner's weights, the learner works when the engine sleeps."""
    seen: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: seen.append("given back"))

    def done() -> dict[str, torch.Tensor]:
        seen.append("done")
        return {}

    learner, engine = SimpleNamespace(weights=done, weights_in_place=done), SimpleNamespace(sleep=done)
    actor = (
        made(EngineActor, placement, engine=engine)
        if asked == "sleep"
        else made(LearnerActor, placement, learner=learner)
    )
    getattr(actor, asked)()
    assert seen == given_back
