"""Where the paths in settings start: in the working directory; those of shipped profiles, in the checkout."""

from pathlib import Path

import pytest

from ares.config import ConfigError, fingerprint, load
from ares.data import load_tokenizer
from ares.errors import UserError
from ares.models.architecture import check_architecture
from ares.runs import Run
from ares.runs.description import model_digests


def test_a_shipped_profile_is_the_same_run_from_any_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = load("tiny-math")
    _, digests = Run.check(here, "any", tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    elsewhere = load("tiny-math")
    _, again = Run.check(elsewhere, "any", tmp_path / "runs")
    assert again == digests
    assert fingerprint(elsewhere) == fingerprint(here)
    assert elsewhere.model.path == "examples/tiny/checkpoints/math"


def test_a_run_from_before_the_toys_moved_still_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, digests = Run.check(load("tiny-math"), "any", tmp_path / "runs")
    old = load("tiny-math", [
        "model.path=ares/tiny/checkpoints/math",
        "data.train=ares/tiny/checkpoints/math/train.jsonl",
        "data.validation=ares/tiny/checkpoints/math/heldout*.jsonl",
    ])  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert Run.check(old, "any", tmp_path / "runs")[1] == digests


def test_what_the_working_directory_has_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "examples/tiny/checkpoints/math"
    mine.mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert load("tiny-math").model.location == "examples/tiny/checkpoints/math"
    assert model_digests("examples/tiny/checkpoints/math")["model_files"] == {}


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("path/to/no/model", "there is no such directory in {here}"),
        ("/no/such/model", "there is no such directory"),
        ("./model", "there is no such directory in {here}"),
        ("weights.bin", "a file, name the directory that it lies in"),
        ("nobody/nothing", "no directory of {here}, and no model of the hub that can be read: "),
    ],
)
def test_a_missing_model_is_one_line(path: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.bin").touch()
    config = load("math", [f"model.path={path}", "data.train=rows.jsonl"])
    for look in (lambda: check_architecture(config), lambda: load_tokenizer(path), lambda: model_digests(path)):
        with pytest.raises(UserError) as caught:
            look()
        text = str(caught.value)
        assert text.startswith(f"model.path={path}: {told.format(here=tmp_path)}")
        assert "Repo id" not in text
        assert "\n" not in text


def test_a_model_directory_that_cannot_be_read_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no tokenizer can be loaded from there"):
        load_tokenizer(str(tmp_path))
