"""Runs, curves, rows, groups and problems as the page has them, from a trained run; what is gone is told in a line."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from algorithms.protocol import DataProto
from ares.browse.runs import curves, describe
from ares.browse.samples import _pieces, group, load_pieces, problem, problems, samples, verdicts
from ares.store import RunStore, StoreError
from tests.ares.builders import MODEL
from tests.ares.store_builders import commit
from tests.short_runs import told


@pytest.fixture(scope="module")
def store(runs: Path) -> RunStore:
    return RunStore(runs / "uninterrupted")


@pytest.fixture
def copied(store: RunStore, tmp_path: Path) -> RunStore:
    """A copy of it."""
    return RunStore(shutil.copytree(store.directory, tmp_path / "runs" / "uninterrupted"))


def table(store: RunStore, step: int, name: str = "samples") -> pd.DataFrame:
    return pd.read_parquet(store.directory / store.step_path(step) / f"{name}.parquet")


def test_a_fork_says_where_it_comes_from_and_has_settings_to_compare(copied: RunStore) -> None:
    runs = copied.directory.parent
    assert told(runs, "fork", "uninterrupted", "--at", "3", "--run", "faster", "learner.lr=1e-3").returncode == 0
    parent, fork = describe(copied), describe(RunStore(runs / "faster"))
    assert fork["fork"] == {"run": "uninterrupted", "at": 3, "phase": None}
    before = parent["settings"]
    assert {name for name, value in fork["settings"].items() if value != before.get(name)} == {"learner.lr"}
    assert (parent["step"], fork["step"], parent["fork"]) == (4, 3, None)
    assert parent["accuracy"] == curves(copied)["metrics"]["val/accuracy"][-1]


def test_curves_have_a_value_a_step_and_null_where_a_step_has_none(store: RunStore) -> None:
    found = curves(store)
    assert found["steps"] == [0, 1, 2, 3, 4]
    assert found["tables"] == {"samples": [0, 1, 2, 3, 4], "evaluation": [0, 2, 4]}
    assert [value is None for value in found["metrics"]["val/accuracy"]] == [False, True, False, True, False]
    assert found["missing"] == []


def test_what_is_gone_is_told_with_what_can_still_be_shown(copied: RunStore) -> None:
    for step in (1, 2, 4):
        (copied.directory / copied.step_path(step) / "batch.safetensors").unlink()
    (copied.directory / "bootstrap" / "samples.parquet").unlink()
    found = curves(copied)
    samples, batch = found["missing"]
    assert samples == (
        "step 0: samples.parquet is gone (`ares gc` deletes some): its trained samples cannot be shown, curves can"
    )
    assert batch.startswith("3 steps (1 to 4): batch.safetensors is gone")
    assert found["tables"]["samples"] == [1, 2, 3, 4]
    (copied.directory / "steps" / "000003" / "COMMIT.json").write_text("{")
    assert (
        curves(RunStore(copied.directory))["missing"][-1] == "step 3: its commit is damaged; steps up to 2 can be shown"
    )


def test_a_run_that_cannot_be_read_says_why_and_hides_no_other(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text('{"format": 99, "checksum": "x"}')
    described = describe(RunStore(tmp_path / "broken"))
    assert described.keys() == {"name", "problem"}
    assert "run.json" in described["problem"]


def test_what_was_judged_again_is_there_with_settings_and_changed_verdicts(copied: RunStore, tmp_path: Path) -> None:
    file = tmp_path / "verifier.py"
    file.write_text("def right(completions, **columns):\n    return [0.0 for _ in completions]\n")
    reward = f"reward.kind={file}:right"
    ended = told(copied.directory.parent, "rescore", "uninterrupted", reward, "--steps", "1:2")
    assert ended.returncode == 0, ended.stderr
    (rescore,) = curves(copied)["rescores"]
    assert (rescore["overrides"], [one["step"] for one in rescore["steps"]]) == ([reward], [1, 2])
    found = verdicts(copied, rescore["name"], 2)
    assert len(found["id"]) == rescore["steps"][1]["changed"] > 0
    assert (set(found["accuracy_before"]), set(found["accuracy"])) == ({1.0}, {0.0})
    assert all(answer in response for answer, response in zip(found["answer"], found["response"], strict=True))
    with pytest.raises(StoreError, match="ares rescore"):
        verdicts(copied, rescore["name"], 4)


def test_the_rows_of_a_step_are_its_table_and_parts_add_up_to_the_reward(store: RunStore) -> None:
    found, rows = samples(store, 3, "samples"), table(store, 3)
    columns = found["columns"]
    assert columns["id"] == rows["id"].tolist()
    assert columns["accuracy"] == rows["accuracy"].tolist()
    assert not {"response", "prompt"} & columns.keys()
    assert all(text.endswith(excerpt) for text, excerpt in zip(rows["response"], columns["excerpt"], strict=True))
    sums = np.sum([columns[part] for part in found["parts"]], axis=0)
    np.testing.assert_allclose(sums, columns["reward"], atol=1e-5)


def test_a_group_has_its_samples_with_the_tokens_that_the_learner_measured(store: RunStore) -> None:
    rows = table(store, 2)
    batch = DataProto.load(store.directory / store.step_path(2) / "batch.safetensors")
    last = int(rows["slot"].iloc[-1])
    found = group(store, 2, "samples", last)
    assert found["missing"] == ""
    mine = np.flatnonzero(rows["slot"] == last)
    assert [sample["response"] for sample in found["samples"]] == rows["response"].iloc[mine].tolist()
    for row, sample in zip(mine.tolist(), found["samples"], strict=True):
        tokens, length = sample["token_rows"], sample["tokens"]
        assert {len(values) for values in tokens.values()} == {length}
        assert "".join(tokens["pieces"]).startswith(sample["response"])  # and then the end token
        for name, tensor in (("entropy", "entropies"), ("advantage", "advantages"), ("log_prob", "old_log_probs")):
            np.testing.assert_allclose(tokens[name], batch.tensor(tensor)[row, :length].numpy(), rtol=1e-4)


def test_held_out_samples_are_in_groups_and_say_why_they_have_no_tokens(store: RunStore) -> None:
    rows = table(store, 4, "evaluation")
    columns = samples(store, 4, "evaluation")["columns"]
    assert columns["group"] == pd.factorize(rows["id"])[0].tolist()
    found = group(store, 4, "evaluation", 1)
    assert {sample["id"] for sample in found["samples"]} == {rows["id"].unique()[1]}
    assert found["missing"].startswith("no tokens:")


def test_a_problem_is_followed_through_every_evaluation(store: RunStore) -> None:
    met = problems(store)
    place = met["set"].index("evaluation")
    assert met["times"][place] == 3
    found = problem(store, "evaluation", met["id"][place])
    assert found["id"] == met["id"][place]
    assert [moment["step"] for moment in found["moments"]] == [0, 2, 4]
    for moment in found["moments"]:
        rows = table(store, moment["step"], "evaluation")
        assert moment["columns"]["response"] == rows.loc[rows["id"] == found["id"], "response"].tolist()
    with pytest.raises(StoreError, match="uninterrupted has not met this problem"):
        problem(store, "samples", met["id"][place])


def test_without_its_batch_a_step_still_shows_texts(copied: RunStore) -> None:
    batch = copied.directory / copied.step_path(2) / "batch.safetensors"
    batch.unlink()
    found = group(copied, 2, "samples", int(table(copied, 2)["slot"].iloc[0]))
    assert "its tokens cannot be read" in found["missing"]
    assert all(sample["response"] and "token_rows" not in sample for sample in found["samples"])
    (copied.directory / copied.step_path(2) / "samples.parquet").unlink()
    with pytest.raises(StoreError, match="is gone: this step's samples cannot be shown"):
        samples(copied, 2, "samples")


def test_a_missing_score_is_null_however_a_table_holds_it(tmp_path: Path) -> None:
    """NaN is not JSON: the page would show nothing."""
    store, rows = RunStore(tmp_path / "run"), pd.DataFrame({"id": ["a", "b"], "sample": [0, 0], "response": ["x", "y"]})
    rows = rows.assign(
        accuracy=pd.array([1.0, None], dtype="Float64"), score=[float("nan"), 0.5], error_type=[None, "timeout"]
    )
    ref = store.write_rows("bootstrap/evaluation.parquet", rows)
    store.write_run({})
    store.write_commit(commit(0, None, artifacts={"evaluation": ref}))
    columns = samples(store, 0, "evaluation")["columns"]
    assert (columns["accuracy"], columns["score"]) == ([1.0, None], [None, 0.5])
    assert (columns["ended"], columns["group"]) == (["", "timeout"], [0, 1])
    assert problems(store)["accuracy_first"] == [1.0, None]


@pytest.mark.parametrize("text", ["18+4=20. wait", "  two spaces\n", "déjà — 🙂🙂 ok", ""])
def test_pieces_make_up_the_text(text: str) -> None:
    tokenizer = load_pieces(str(MODEL))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    pieces = _pieces(ids, tokenizer)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text


def test_a_model_without_a_tokenizer_file_shows_numbers(tmp_path: Path) -> None:
    assert load_pieces(str(tmp_path)) is None
    assert load_pieces("nobody/never-downloaded") is None
    assert _pieces([7, 12], None) == ["7 ", "12 "]
