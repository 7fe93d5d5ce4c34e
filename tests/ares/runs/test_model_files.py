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
from ares.runs.model_files import export
from ares.runs.run import Run
from ares.store.store import RunStore, StoreError
from flows.cli.runs import export as export_and_advise
from tests.ares import masked_builders
from tests.ares.builders import MODEL, config, rows, shaped, tokenizer
from tests.ares.store_builders import chain, commit

IDS = torch.arange(3, 40)[None]


def trained(runs: Path, *overrides: str, settings: Config | None = None) -> Learner:
    """A run `r` whose only step ended in a checkpoint, and the learner that wrote it."""
    run = Run.open(settings or config("learner.lr=1e-2", *overrides), "r", runs)
    learner = Learner(run.config)
    if settings is None:
        learner.update(shaped(learner, rows([[1, 0, 1, 0], [0, 0, 1, 0]])))
    (first,) = chain(run.store, 1)
    saved = run.store.write_folder("checkpoints/000001", learner.save)
    run.store.write_commit(commit(1, first, artifacts={"checkpoint": saved}))
    return learner


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Learner]:
    """The directory of a run, not to be changed, and its learner."""
    runs = tmp_path_factory.mktemp("plain")
    return runs, trained(runs)


@pytest.fixture
def of_plain(plain: tuple[Path, Learner], monkeypatch: pytest.MonkeyPatch) -> Learner:
    """The learner of the run that `export` finds."""
    monkeypatch.setenv("ARES_RUNS", str(plain[0]))
    return plain[1]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory for a run of the test's own."""
    monkeypatch.setenv("ARES_RUNS", str(tmp_path / "runs"))
    return tmp_path / "runs"


def assert_same_logits(model: torch.nn.Module, learner: Learner) -> None:
    with torch.no_grad():
        found, expected = (each(input_ids=IDS).logits for each in (model, learner.policy.model))
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_the_policy_is_exported_with_the_permissions_of_the_umask(of_plain: Learner, tmp_path: Path) -> None:
    """Weights could be read by their owner alone."""
    before = os.umask(0o027)
    try:
        assert export("r", tmp_path / "out") == 1
    finally:
        os.umask(before)
    assert {oct(file.stat().st_mode & 0o777) for file in (tmp_path / "out").iterdir()} == {oct(0o640)}
    assert_same_logits(AutoModelForCausalLM.from_pretrained(tmp_path / "out"), of_plain)
    messages = [{"role": "user", "content": "1+2=?"}]
    texts = [
        AutoTokenizer.from_pretrained(path).apply_chat_template(messages, tokenize=False)
        for path in (MODEL, tmp_path / "out")
    ]
    assert texts[0] == texts[1]


def test_adapters_are_exported_merged_or_as_peft_reads_them(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    learner = trained(runs, "model.lora={rank: 4}")
    export_and_advise("r", tmp_path / "merged", merge=True)
    assert "next: ares eval" in capsys.readouterr().out
    assert_same_logits(AutoModelForCausalLM.from_pretrained(tmp_path / "merged"), learner)
    export_and_advise("r", tmp_path / "out")
    assert "next: ares export r --merge" in capsys.readouterr().out
    base = AutoModelForCausalLM.from_pretrained(MODEL)
    assert_same_logits(PeftModel.from_pretrained(base, tmp_path / "out").eval(), learner)


def test_the_average_is_exported_where_one_is_kept(runs: Path, tmp_path: Path) -> None:
    learner = trained(runs, "learner.ema=0.9")
    export("r", tmp_path / "out")
    loaded = dict(AutoModelForCausalLM.from_pretrained(tmp_path / "out").named_parameters())
    for name, weight in learner.policy.model.named_parameters():
        torch.testing.assert_close(loaded[name], learner.average[name], atol=0, rtol=0)
        assert weight.shape != loaded[name].shape or not torch.equal(weight, loaded[name])


@pytest.mark.parametrize(
    ("out", "step", "told"),
    [("out", 0, "has no checkpoint at or before step 0"), (".", None, "is not empty"),
     ("/proc/exported", None, r"^/proc/exported cannot be written: \S")],
)  # fmt: skip
def test_what_cannot_be_is_told(out: str, step: int | None, told: str, of_plain: Learner, tmp_path: Path) -> None:
    """A full disk, or a place where no folder can be made, ended in a traceback."""
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=told):
        export("r", tmp_path / out, step)


def test_a_fork_is_exported_with_its_first_weights(plain: tuple[Path, Learner], runs: Path, tmp_path: Path) -> None:
    """Rebuilt by a replay, they are in no commit: older ones were exported, or none."""
    shutil.copytree(plain[0], runs)
    store = RunStore(runs / "r")
    last = store.read_commit(1)
    made = {"run": "of", "at": 1, "phase": None, "version": 1, "commit": ""}
    store.write_run(store.read_run() | {"fork": made | {"checkpoint": last.artifacts["checkpoint"].model_dump()}})
    store.write_commit(last.model_copy(update={"artifacts": {}}))
    assert store.committed_steps() == [0, 1]
    assert export("r", tmp_path / "out") == 1


TOKENIZER = """from transformers import PreTrainedTokenizerFast

class OwnTokenizer(PreTrainedTokenizerFast):
    pass
"""


def test_a_model_with_code_of_its_own_is_exported_with_it(runs: Path, tmp_path: Path) -> None:
    """Its tokenizer was another class, and the exported folder named code that was not in it."""
    source = tmp_path / "source"
    shutil.copytree(masked_builders.remote_directory(), source)
    (source / "tokenization_own.py").write_text(TOKENIZER)
    described = json.loads((source / "tokenizer_config.json").read_text())
    named = {"tokenizer_class": "OwnTokenizer", "auto_map": {"AutoTokenizer": [None, "tokenization_own.OwnTokenizer"]}}
    (source / "tokenizer_config.json").write_text(json.dumps(described | named))
    learner = trained(runs, settings=masked_builders.config("model.trust_remote_code=true", model=source))
    export("r", tmp_path / "out")
    shutil.rmtree(source)
    loaded = AutoModel.from_pretrained(tmp_path / "out", trust_remote_code=True)
    assert type(loaded).__name__ == "RemoteModel"
    weights = dict(learner.policy.model.named_parameters())
    assert all(torch.equal(weights[name], parameter) for name, parameter in loaded.named_parameters())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "out", trust_remote_code=True)
    assert type(tokenizer).__name__ == "OwnTokenizer"


def test_generation_settings_are_exported_with_the_engines_end_tokens(runs: Path, tmp_path: Path) -> None:
    """Sampling flags beside do_sample=false, as many models have, were a traceback and half a folder. Responses end at
    the tokenizer's end token too, whatever generation_config.json says."""
    source = tmp_path / "model"
    shutil.copytree(MODEL, source)
    given = {"do_sample": False, "temperature": 0.6, "top_p": 0.9}
    (source / "generation_config.json").write_text(json.dumps(given | {"eos_token_id": 7}))
    trained(runs, settings=config(f"model.path={source}"))
    export("r", tmp_path / "out")
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert {name: written.get(name, False) for name in given} == given
    read = GenerationConfig.from_pretrained(tmp_path / "out")
    assert (read.temperature, read.eos_token_id) == (0.6, [1, 7])


def test_a_failed_export_leaves_nothing(of_plain: Learner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second try was refused, since the folder was not empty."""
    save = type(tokenizer()).save_pretrained

    def save_another(self: object, folder: Path) -> None:
        save(self, folder)
        (folder / "chat_template.jinja").write_text("another")

    with monkeypatch.context() as patch:
        patch.setattr(type(tokenizer()), "save_pretrained", save_another)
        with pytest.raises(StoreError, match="cannot be loaded, so it was deleted again: the tokenizer is not the one"):
            export("r", tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / f".out.{os.getpid()}.partial").mkdir()  # of one that was killed, as a process with the same id
    export("r", tmp_path / "out")
