"""What an update takes of memory, and the settings that are named when it is short."""

import gc
from pathlib import Path
from typing import Any

import pytest
import torch

from ares.models import memory
from ares.models.memory import OutOfMemory, naming_settings
from tests.ares.builders import shaped
from tests.ares.learner_builders import learner, sampled


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
@pytest.mark.parametrize(("role", "named"), [("learner", "micro_batch_tokens"), ("engine", "rollout.shard_prompts")])
def test_who_gets_no_memory_names_settings(error: Exception, role: str, named: str) -> None:
    with pytest.raises(OutOfMemory, match=f"lower .*{named}.*; `ares resume "), naming_settings(role):
        raise error


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match="another") as caught, naming_settings("learner"):
        raise RuntimeError("another")
    assert type(caught.value) is RuntimeError


def test_an_update_that_will_not_fit_is_said_with_a_size_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert learner().policy.notes == []
    weights = sum(parameter.numel() for parameter in learner().policy.model.parameters())
    fixed = 16 * weights  # gradients, two moments, the engine's weights
    monkeypatch.setattr(memory, "free_memory", lambda device: fixed + 2**22)
    (note,) = learner("learner.micro_batch_tokens=100000").policy.notes
    fits = int(note.rpartition("learner.micro_batch_tokens=")[2].removesuffix(" fits"))
    assert 16 < fits < 2000
    assert learner(f"learner.micro_batch_tokens={fits}").policy.notes == []
    monkeypatch.setattr(memory, "free_memory", lambda device: fixed)
    assert learner().policy.notes[0].endswith("nothing is left for them")


def test_the_trial_pass_keeps_nothing() -> None:
    """An operation's saved output held the whole pass, and with it the weights' file: 125 MB of SmolLM2."""
    trained = learner()
    large = torch.Size([1, memory.LARGE, trained.policy.model.config.hidden_size])
    gc.collect()
    memory._saved_bytes(trained.policy, memory.LARGE)
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each) is torch.Tensor and each.shape == large]


def test_the_prediction_of_a_tokens_memory_is_what_an_update_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of packed rows: what autograd keeps for the backward pass of a micro-batch, but for logits."""
    trained = learner("algorithm.kl.placement=none")
    predicted = [memory._saved_bytes(trained.policy, tokens) for tokens in (memory.SMALL, memory.LARGE)]
    a_token = (predicted[1] - predicted[0]) / (memory.LARGE - memory.SMALL)
    kept: dict[int, int] = {}
    known = {parameter.untyped_storage().data_ptr() for parameter in trained.policy.model.parameters()}
    vocabulary = trained.policy.model.config.vocab_size
    alive: list[Any] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.shape[-1:] != (vocabulary,) and tensor.untyped_storage().data_ptr() not in known:
            alive.append(tensor)
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    batch = shaped(trained, sampled())
    tokens = int(batch.tensor("attention_mask").sum())
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        trained.policy.token_log_probs(trained.policy.on_device(batch), 1.0)
    assert sum(kept.values()) == pytest.approx(a_token * tokens, rel=0.5)


def test_the_free_memory_of_a_control_group_is_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = memory.free_memory(torch.device("cpu"))
    monkeypatch.setattr(memory, "CGROUP", tmp_path)
    (tmp_path / "memory.current").write_text("1000\n")
    (tmp_path / "memory.max").write_text("3000\n")
    assert memory.free_memory(torch.device("cpu")) == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert memory.free_memory(torch.device("cpu")) == pytest.approx(whole, rel=0.5)
