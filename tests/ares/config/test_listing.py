"""The list of settings comes from the models, each with default, bounds and meaning; so does a written profile."""

from pathlib import Path

import pytest
import yaml

from ares.config import Config, commented, defaults, load, profile_names, sections
from ares.config.profiles import result_settings

SHAPED = """
from ares.config import Strict
from pydantic import Field

class Nested:
    class Settings(Strict):
        factor: float = Field(0.5, gt=0)
        \"\"\"What rewards are multiplied with.\"\"\"

    def __init__(self, settings): ...
    def estimate(self, batch): ...
"""


def listed(config: Config) -> dict[str, tuple[str, str, str]]:
    return {
        f"{section.name}.{setting.name}".lstrip("."): (setting.text, setting.allowed, setting.meaning)
        for section in sections(config)
        for setting in section.settings
    }


@pytest.fixture
def estimator(tmp_path: Path) -> str:
    file = tmp_path / "mine.py"
    file.write_text(SHAPED)
    return f"algorithm.advantage.estimator={file}:Nested"


def test_every_setting_is_listed_with_its_default_and_a_meaning() -> None:
    every, flat = listed(defaults()), result_settings(defaults())
    assert set(flat) - set(every) == set()
    for name, value in flat.items():
        assert yaml.safe_load(every[name][0]) == value, name
    assert [name for name, (_, allowed, meaning) in every.items() if not allowed or not meaning] == []
    assert "train.steps" in every  # which does not change results


@pytest.mark.parametrize(
    ("name", "default", "allowed"),
    [
        ("learner.lr", "1.0e-06", "number > 0 and ≤ 1"),
        ("learner.betas", "[0.9, 0.999]", "[number ≥ 0 and < 1, number ≥ 0 and < 1]"),
        ("learner.device", "auto", "auto | cpu | cuda"),
        ("learner.sharded", "false", "true | false"),
        ("bootstrap.max_prompts", "null", "whole number ≥ 1 and ≤ 2,147,483,647 | null"),
        ("algorithm.kl.coef", "0.01", "number ≥ 0 | {easy: …, medium: …, hard: …}"),
        ("tracking.kind", "mlflow", "mlflow | jsonl | tensorboard | wandb | trackio | path/to/file.py:Name"),
        ("model.lora", "null", "a section | null"),
        ("model.lora.rank", "16", "whole number ≥ 1 and ≤ 65,536"),
        ("tracking.tags", "{}", "{name: …}"),
    ],
)
def test_a_setting_says_what_it_may_be(name: str, default: str, allowed: str) -> None:
    assert listed(defaults())[name][:2] == (default, allowed)


def test_settings_of_an_extension_are_listed_where_it_is_named(estimator: str) -> None:
    assert listed(load("tiny-math", [estimator]))["algorithm.advantage.settings.factor"] == (
        "0.5", "number > 0", "What rewards are multiplied with.",
    )  # fmt: skip
    assert "algorithm.advantage.settings.factor" not in listed(defaults())


def test_a_written_profile_is_the_one_it_was_written_from(tmp_path: Path) -> None:
    shipped = {name: load(name) for name in profile_names() if name != "base"}
    file = tmp_path / "mine.yaml"
    for name in ("tiny-game", "tiny-diffusion", "code", "smollm2"):
        file.write_text(commented(shipped[name]))
        assert load(str(file)) == shipped[name]


def test_a_written_profile_holds_the_settings_of_extensions_and_optional_sections(
    estimator: str, tmp_path: Path
) -> None:
    config = load("tiny-math", [estimator, "model.lora.rank=4", "algorithm.advantage.settings.factor=0.25"])
    file = tmp_path / "written.yaml"
    file.write_text(commented(config))
    assert load(str(file)) == config
    assert "# What rewards are multiplied with. (number > 0)\n      factor: 0.25\n" in file.read_text()
