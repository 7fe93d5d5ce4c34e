import json
import os
import shutil
from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from ares.config import Config
from ares.learner.learner import Learner
from ares.runs.export import export
from ares.runs.run import Run
from ares.store.store import Commit, RunStore, StoreError
from tests.ares import masked_builders
from tests.ares.builders import MODEL, config, rows, shaped, tokenizer

IDS = torch.arange(3, 40)[None]


def trained(runs: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str, settings: Config | None = None) -> Learner:
    """A run `r` whose only step ended in a checkpoint, and the learner that wrote it."""
    monkeypatch.setenv("ARES_RUNS", str(runs))
    run = Run.open(settings or config("learner.lr=1e-2", *overrides), "r", runs)
    learner = Learner(run.config)
    if settings is None:
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


def test_the_average_is_exported_where_one_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = trained(tmp_path / "runs", monkeypatch, "learner.ema=0.9")
    export("r", tmp_path / "out")
    loaded = dict(AutoModelForCausalLM.from_pretrained(tmp_path / "out").named_parameters())
    for name, weight in learner.policy.model.named_parameters():
        torch.testing.assert_close(loaded[name], learner.average[name], atol=0, rtol=0)
        assert weight.shape != loaded[name].shape or not torch.equal(weight, loaded[name])


def test_adapters_are_exported_as_peft_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = trained(tmp_path / "runs", monkeypatch, "model.lora={rank: 4}")
    export("r", tmp_path / "out")
    base = AutoModelForCausalLM.from_pretrained(MODEL)
    loaded = PeftModel.from_pretrained(base, tmp_path / "out").eval()
    torch.testing.assert_close(logits(loaded), logits(learner.policy.model), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("out", "step", "told"),
    [("out", 0, "has no checkpoint at or before step 0"), (".", None, "is not empty"),
     ("/proc/exported", None, r"^/proc/exported cannot be written: \S")],
)  # fmt: skip
def test_what_cannot_be_exported_or_written_is_a_line(
    out: str, step: int | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, or a place where no folder can be made, ended in a traceback."""
    trained(tmp_path / "runs", monkeypatch)
    with pytest.raises(StoreError, match=told):
        export("r", tmp_path / out, step)


def test_a_fork_is_exported_with_the_weights_it_was_forked_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rebuilt by a replay, they are in no commit: older ones were exported, or none."""
    trained(tmp_path / "runs", monkeypatch)
    store = RunStore(tmp_path / "runs" / "r")
    first, last = store.read_commit(0), store.read_commit(1)
    made = {"run": "of", "at": 1, "phase": None, "version": 1, "commit": ""}
    store.write_run(store.read_run() | {"fork": made | {"checkpoint": last.artifacts["checkpoint"].model_dump()}})
    store.write_commit(last.model_copy(update={"artifacts": {}}))
    assert store.committed_steps() == [first.step, last.step]
    assert export("r", tmp_path / "out") == 1


TOKENIZER = """from transformers import PreTrainedTokenizerFast

class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


def test_a_model_with_code_of_its_own_is_exported_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tokenizer was another class, and the exported folder named code that was not in it."""
    source = tmp_path / "source"
    shutil.copytree(masked_builders.remote_directory(), source)
    (source / "tokenization_own.py").write_text(TOKENIZER)
    described = json.loads((source / "tokenizer_config.json").read_text())
    named = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": [None, "tokenization_own.OwnTokenizer"]}}
    (source / "tokenizer_config.json").write_text(json.dumps(described | named))
    settings = masked_builders.config("model.trust_remote_code=true", model=source)
    learner = trained(tmp_path / "runs", monkeypatch, settings=settings)
    export("r", tmp_path / "out")
    shutil.rmtree(source)
    loaded = AutoModel.from_pretrained(tmp_path / "out", trust_remote_code=True)
    assert type(loaded).__name__ == "RemoteModel"
    weights = dict(learner.policy.model.named_parameters())
    assert all(torch.equal(weights[name], parameter) for name, parameter in loaded.named_parameters())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", trust_remote_code=True)
    assert type(tokenizer).__name__ == "OwnTokenizer"


def test_generation_settings_are_exported_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampling flags beside do_sample=false, as many models have, were a traceback and half a folder."""
    source = tmp_path / "model"
    shutil.copytree(MODEL, source)
    given = {"do_sample": False, "temperature": 0.6, "top_p": 0.9, "eos_token_id": 1}
    (source / "generation_config.json").write_text(json.dumps(given))
    trained(tmp_path / "runs", monkeypatch, f"model.path={source}")
    export("r", tmp_path / "out")
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert {name: written.get(name, False) for name in given} == given
    assert GenerationConfig.from_pretrained(tmp_path / "out").temperature == 0.6


def test_an_exported_model_ends_its_responses_where_the_engine_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the tokenizer's end token too, whatever generation_config.json says."""
    source = tmp_path / "model"
    shutil.copytree(MODEL, source)
    (source / "generation_config.json").write_text(json.dumps({"eos_token_id": 7}))
    trained(tmp_path / "runs", monkeypatch, f"model.path={source}")
    export("r", tmp_path / "out")
    assert GenerationConfig.from_pretrained(tmp_path / "out").eos_token_id == [1, 7]


def test_files_have_the_permissions_that_the_umask_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights could be read by their owner alone."""
    trained(tmp_path / "runs", monkeypatch)
    before = os.umask(0o027)
    try:
        export("r", tmp_path / "out")
    finally:
        os.umask(before)
    assert {oct(file.stat().st_mode & 0o777) for file in (tmp_path / "out").iterdir()} == {oct(0o640)}


def test_an_export_that_fails_or_cannot_be_loaded_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second try was refused, since the folder was not empty."""
    trained(tmp_path / "runs", monkeypatch)
    save = type(tokenizer()).save_pretrained

    def save_another(self: object, folder: Path) -> None:
        save(self, folder)
        (folder / "chat_template.jinja").write_text("another")

    with monkeypatch.context() as patch:
        patch.setattr(type(tokenizer()), "save_pretrained", save_another)
        with pytest.raises(StoreError, match="cannot be loaded, so it was deleted again: the tokenizer is not the one"):
            export("r", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["runs"]
    export("r", tmp_path / "out")
