"""One rule for the names of runs, forks and ablations."""

from pathlib import Path

import pytest

from ares.ablations import read_ablation
from ares.config import ConfigError
from ares.runs import fork
from ares.runs.run import Run
from ares.store import StoreError, checked_name, name_after, run_status
from tests.ares.builders import config

BAD = ["../evil", "/abs", ".", "..", "a/b", "a\nb", "-dash", "--run", "", " ", "a b", "a" * 101, ".hidden", "ü", "a\0b",
       "a\\b", "s3:", "\ud800"]  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_an_invalid_name_is_refused_with_the_rule(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    monkeypatch.setenv("ARES_RUNS", str(runs))
    told = r"cannot be the name of a run or an ablation: letters, digits, .* at most 100 characters$"
    for refused in (
        lambda: Run.check(config(), name, runs),
        lambda: run_status(name),
        lambda: fork("source", 1, None, [], name, runs),
        lambda: fork(name, 1, None, [], "target", runs),
    ):
        with pytest.raises(StoreError, match=told) as caught:
            refused()
        assert "\n" not in str(caught.value)
        assert str(caught.value).isascii()
    with pytest.raises(
        ConfigError, match=r"name: (it is made of letters, digits|holds a null byte or a lone surrogate)"
    ):
        read_ablation("code-rewards", name)
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]


@pytest.mark.parametrize("name", ["first", "tiny-math-20261122-120000", "v1.5_b", "a" * 100, "7"])
def test_ordinary_names_are_taken(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize(
    ("text", "name"), [("tiny-math", "tiny-math"), ("my profile (2)", "my-profile-2-"), ("..", "run"), ("äöü", "run")]
)
def test_a_run_without_a_name_is_called_after_its_profile_in_characters_of_names(text: str, name: str) -> None:
    assert checked_name(f"{name_after(text)}-20261122") == f"{name}-20261122"


@pytest.mark.parametrize("name", ["evals", "mlflow.db", "mlartifacts"])
def test_a_run_is_not_called_as_what_lies_beside_runs(name: str, tmp_path: Path) -> None:
    """Evaluations of models would have been files of the run, and gone with it."""
    with pytest.raises(StoreError, match=rf"^'{name}' cannot be the name of a run: .* lies beside the runs$"):
        Run.check(config(), name, tmp_path)
