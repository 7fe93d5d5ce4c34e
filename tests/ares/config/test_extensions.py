"""A profile that names a file of its own, and the errors when that goes wrong."""

import json
from pathlib import Path

import pytest

from ares.config import Config, extension_files, fingerprint, from_dict, load, sections
from ares.config.extensions import ESTIMATORS, KINDS, Kind
from tests.ares.config.refusal import refusal

ESTIMATOR = """
import torch
from pydantic import Field

from ares.config import Strict


class Halver:
    needs_greedy = True

    class Settings(Strict):
        factor: float = Field(0.5, gt=0)

    def __init__(self, settings):
        self.settings = settings

    def estimate(self, seen):
        return self.settings.factor * seen.rewards, seen.rewards


class Other:
    def __init__(self, section):
        self.section = section

    def estimate(self, seen):
        return seen.rewards, seen.rewards


class NoEstimator:
    pass


def function(seen):
    return seen.rewards, seen.rewards
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(ESTIMATOR)
    return path


def estimator(reference: str, *overrides: str) -> Config:
    return load("tiny-math", [f"algorithm.advantage.estimator={reference}", *overrides])


def refused(reference: str, *overrides: str) -> str:
    return refusal("tiny-math", f"algorithm.advantage.estimator={reference}", *overrides)


def test_a_files_settings_are_filled_in_and_are_part_of_the_fingerprint(file: Path) -> None:
    plain = estimator(f"{file}:Halver")
    assert plain.algorithm.advantage.settings == {"factor": 0.5}
    same = estimator(f"{file}:Halver", "algorithm.advantage.settings.factor=0.5")
    other = estimator(f"{file}:Halver", "algorithm.advantage.settings.factor=0.25")
    assert fingerprint(plain) == fingerprint(same) != fingerprint(other)
    assert plain.algorithm.advantage.needs_greedy
    assert not plain.algorithm.advantage.needs_values


def test_without_settings_of_its_own_a_class_is_given_the_section(file: Path) -> None:
    section = estimator(f"{file}:Other", "algorithm.advantage.gamma=0.5").algorithm.advantage
    assert ESTIMATORS.make(section).section.gamma == 0.5
    assert "has no settings of its own" in refused(f"{file}:Other", "algorithm.advantage.settings.factor=1")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("factor=-1", "algorithm.advantage.settings.factor: Input should be greater than 0 (got -1)"),
        ("factor={a: 1}", "algorithm.advantage.settings.factor: Input should be a valid number"),
        ("facter=1", "algorithm.advantage.settings.facter is unknown (did you mean factor?)"),
        ("zzz=1", "algorithm.advantage.settings.zzz is unknown (known: factor)"),
    ],
)
def test_a_wrong_setting_of_a_file_names_the_field(file: Path, setting: str, said: str) -> None:
    assert said in refused(f"{file}:Halver", f"algorithm.advantage.settings.{setting}")


def test_an_unknown_name_lists_those_there_are_and_the_nearest(file: Path) -> None:
    said = "algorithm.advantage.estimator: '{}' is not an advantage estimator ({}), nor path/to/file.py:Name"
    assert said.format("gropo", "did you mean grpo?") in refused("gropo")
    assert said.format(
        "best", "known: grpo, gdpo, maxrl, pass_at_k, rloo, rloo_by_turn, reinforce_plus_plus, remax, gae, none"
    ) in refused("best")
    assert "has no 'Halve' (did you mean Halver?)" in refused(f"{file}:Halve")
    assert "there is no Python file" in refused(f"{file.parent}/absent.py:Halver")
    assert "is not an advantage estimator" in refused(str(file))


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("import torch\n\nclass Halver(:\n    pass\n", 3, "SyntaxError"),
        ("import torch\nimport no_such_module\n", 2, "ModuleNotFoundError: No module named 'no_such_module'"),
        ("def f():\n    return undefined\n\n\nf()\n", 2, "NameError: name 'undefined'"),
        ("import sys\n\nsys.exit()\n", 3, "SystemExit"),  # else the command would end, with exit code 0
    ],
)
def test_a_file_that_does_not_import_says_which_line(tmp_path: Path, text: str, line: int, said: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(text)
    message = refused(f"{path}:Halver")
    assert f"algorithm.advantage.estimator: {path}:{line}: " in message
    assert said in message


def test_a_class_that_is_not_an_estimator_is_refused_with_what_it_lacks(file: Path) -> None:
    for name in ("NoEstimator", "function"):
        assert "is not an advantage estimator: it lacks estimate" in refused(f"{file}:{name}")


def test_reading_a_run_back_executes_nothing(file: Path) -> None:
    stored = json.loads(json.dumps(estimator(f"{file}:Halver").model_dump(mode="json")))
    file.write_text("raise RuntimeError('executed')")
    read = from_dict(stored, "run.json")
    assert read.algorithm.advantage.settings == {"factor": 0.5}
    assert extension_files(read) == {file: "algorithm.advantage.estimator"}
    assert extension_files(load("tiny-math")) == {}


def test_a_changed_file_is_executed_anew(file: Path) -> None:
    assert estimator(f"{file}:Halver").algorithm.advantage.settings == {"factor": 0.5}
    file.write_text(ESTIMATOR.replace("0.5, gt=0", "0.7, gt=0"))
    assert estimator(f"{file}:Halver").algorithm.advantage.settings == {"factor": 0.7}


@pytest.mark.parametrize("kind", KINDS, ids=[kind.setting for kind in KINDS])
def test_every_builtin_name_stands_for_something(kind: Kind) -> None:
    for name in kind.builtin:
        implementation = kind.implementation(name)
        is_called = "__call__" in vars(implementation)  # as functions are
        if isinstance(implementation, type) and not is_called:
            assert all(callable(getattr(implementation, method, None)) for method in kind.methods)
        assert callable(implementation)
    assert all(known.keys() <= kind.builtin.keys() for _, known in kind.facts.values())


def test_every_section_that_takes_settings_is_in_the_list_of_kinds() -> None:
    """Otherwise its file would be executed without its content being in any digest."""
    given = [section for section in sections(load("tiny-math")) if section.given]
    named = [section.name for section in given if "settings" in [each.name for each in section.settings]]
    assert sorted(named) == sorted(kind.section for kind in KINDS)
