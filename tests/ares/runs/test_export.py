from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from ares.learner.learner import Learner
from ares.runs.export import export
from ares.runs.run import Run
from ares.store.store import Commit, RunStore, StoreError
from tests.ares.builders import MODEL, config, rows, shaped

IDS = torch.arange(3, 40)[None]


def trained(runs: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Learner:
    """A run `r` whose only step ended in a checkpoint, and the learner that wrote it."""
    monkeypatch.setenv("ARES_RUNS", str(runs))
    run = Run.open(config("learner.lr=1e-2", *overrides), "r", runs)
    learner = Learner(run.config)
    learner.update(shaped(learner, rows([[1, 0, 1, 0], [0, 0, 1, 0]])))
    common = {"state": {}, "metrics": {}, "timings": {}, "timestamp": 0}
    first = Commit(step=0, parent=None, artifacts={}, **common)
    run.store.write_commit(first)
    saved = run.store.write_folder("checkpoints/000001", learner.save)
    run.store.write_commit(Commit(step=1, parent=first.digest(), artifacts={"checkpoint": saved}, **common))
    return learner


def logits(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=IDS).logits


@pytest.mark.parametrize("lora", ["null", "{rank: 4}"])
def test_what_is_exported_is_the_policy(lora: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = trained(tmp_path / "runs", monkeypatch, f"model.lora={lora}")
    assert export("r", tmp_path / "out", merge=True) == 1
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path / "out")
    torch.testing.assert_close(logits(loaded), logits(learner.policy.model), atol=1e-4, rtol=1e-4)
    messages = [{"role": "user", "content": "1+2=?"}]
    texts = [
        AutoTokenizer.from_pretrained(path).apply_chat_template(messages, tokenize=False)
        for path in (MODEL, tmp_path / "out")
    ]
    assert texts[0] == texts[1]


def test_adapters_are_exported_as_peft_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = trained(tmp_path / "runs", monkeypatch, "model.lora={rank: 4}")
    export("r", tmp_path / "out")
    base = AutoModelForCausalLM.from_pretrained(MODEL)
    loaded = PeftModel.from_pretrained(base, tmp_path / "out").eval()
    torch.testing.assert_close(logits(loaded), logits(learner.policy.model), atol=1e-4, rtol=1e-4)


def test_no_checkpoint_and_a_full_folder_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trained(tmp_path / "runs", monkeypatch)
    with pytest.raises(StoreError, match="no checkpoint at or before step 0"):
        export("r", tmp_path / "out", step=0)
    with pytest.raises(StoreError, match="is not empty"):
        export("r", tmp_path)
    assert RunStore(tmp_path / "runs" / "r").committed_steps() == [0, 1]


def test_a_folder_that_cannot_be_written_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk, or a place where no folder can be made, ended in a traceback."""
    trained(tmp_path / "runs", monkeypatch)
    with pytest.raises(StoreError, match=r"^/proc/exported cannot be written: \S"):
        export("r", Path("/proc/exported"))


def test_a_fork_is_exported_with_the_weights_it_was_forked_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebuilt by a replay, they are in no commit: older ones were exported, or none."""
    trained(tmp_path / "runs", monkeypatch)
    store = RunStore(tmp_path / "runs" / "r")
    first, last = store.read_commit(0), store.read_commit(1)
    made = {"run": "of", "at": 1, "phase": None, "version": 1, "commit": "", "identities": {}}
    store.write_run(store.read_run() | {"fork": made | {"checkpoint": last.artifacts["checkpoint"].model_dump()}})
    store.write_commit(last.model_copy(update={"artifacts": {}}))
    assert store.committed_steps() == [first.step, last.step]
    assert export("r", tmp_path / "out") == 1
