"""A run resumes only with what it was started with: settings, data and weights, but also files that it executes and
reads."""

import json
import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from ares.config import load, override
from ares.config.run import Config
from ares.config.strict import ConfigError
from ares.runs.description import description_of, model_digest
from ares.runs.lineage import fork
from ares.runs.run import Run
from ares.store import read_config
from ares.store.store import RunStore, StoreError
from tests.ares.builders import MODEL, config
from tests.ares.store_builders import chain

REWARD = "def score(completions, **columns):\n    return [float('1' in one) for one in completions]\n"
INVERTED = REWARD.replace("'1' in", "'1' not in")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "reward.py").write_text(REWARD)
    (tmp_path / "triggers.txt").write_text("1\n")
    shutil.copytree(MODEL, tmp_path / "model")
    return tmp_path


def settings(place: Path) -> Config:
    return config(
        f"model.path={place / 'model'}",
        f"reward.kind={place / 'reward.py'}:score",
        f"algorithm.entropy.trigger_tokens={place / 'triggers.txt'}",
    )


def bootstrapped(place: Path) -> Run:
    """A run after its bootstrap; no actor was started."""
    run = Run.open(settings(place), "here", place / "runs")
    chain(run.store, 1, lambda step: {"state": run.state.state_dict() | {"step": step}})
    return run


@pytest.mark.parametrize(("shuffled", "allowed"), [("false", True), ("true", False)])
def test_where_verdicts_are_shuffled_a_shards_size_is_no_rounding(shuffled: str, allowed: bool, tmp_path: Path) -> None:
    turns = ["rollout.second_turn.enabled=true", f"rollout.second_turn.shuffled={shuffled}"]
    config = load("tiny-code-feedback", ["data.limit=20", *turns])
    run, digests = Run.check(config, "run", tmp_path)
    run.store.write_run(description_of(config, "run", digests))
    other = override(config, ["rollout.shard_prompts=1"])
    with nullcontext() if allowed else pytest.raises(StoreError, match=r"rollout\.shard_prompts: .* → 1"):
        Run.check(other, "run", tmp_path, may_round=True)


ROUNDING = "learner.micro_batch_tokens=512"


def test_what_changes_rounding_alone_may_change_when_it_is_asked_for_and_is_recorded(place: Path) -> None:
    """After running out of memory it is the one thing a person wants; it was refused like any other setting."""
    run = bootstrapped(place)
    smaller = override(settings(place), [ROUNDING])
    with pytest.raises(StoreError, match=r"`ares resume here SETTING=VALUE` may change learner.micro"):
        Run.open(smaller, "here", place / "runs")
    with pytest.raises(StoreError, match=r"train.seed: 0 → 5"):
        Run.open(override(smaller, ["train.seed=5"]), "here", place / "runs", may_round=True)
    assert "changes" not in run.store.read_run()
    Run.open(smaller, "here", place / "runs", may_round=True)
    written = run.store.read_run()
    before = settings(place).learner.micro_batch_tokens
    assert written["changes"] == [{"after_step": 0, "settings": [f"learner.micro_batch_tokens: {before} → 512"]}]
    assert read_config(run.store).learner.micro_batch_tokens == 512
    Run.open(smaller, "here", place / "runs")  # from now on they are its settings


def test_a_setting_of_an_earlier_version_that_changed_no_result_is_passed_over(place: Path) -> None:
    run = bootstrapped(place)
    written = run.store.read_run()
    written["config"]["reward"]["code"]["verdicts"] = "verdicts.sqlite"
    run.store.write_run(written)
    assert read_config(run.store) == settings(place)
    Run.open(settings(place), "here", place / "runs")


CHANGES = {"reward.py": INVERTED, "triggers.txt": "2\n"}


def test_a_run_whose_file_changed_is_refused_by_its_name_and_can_be_forked(place: Path) -> None:
    bootstrapped(place)
    for name, text in CHANGES.items():
        before = (place / name).read_text()
        (place / name).write_text(text)
        with pytest.raises(StoreError, match=rf"{name}.*ares fork here"):
            Run.check(settings(place), "here", place / "runs")
        (place / name).write_text(before)
    (place / "reward.py").write_text(INVERTED)
    described = RunStore(place / "runs" / "here").read_run()
    fork("here", 0, None, [], "other", place / "runs")
    assert RunStore(place / "runs" / "here").read_run() == described
    Run.check(settings(place), "other", place / "runs")
    (place / "reward.py").write_text("# once more\n" + INVERTED)
    with pytest.raises(StoreError, match=r"reward.py.*ares fork other"):
        Run.check(settings(place), "other", place / "runs")
    (place / "other.py").write_text(INVERTED)
    fork("here", 0, None, [f"reward.kind={place / 'other.py'}:score"], "third", place / "runs")


def test_a_run_whose_models_file_changed_is_refused_by_its_name(place: Path) -> None:
    names = ("chat_template.jinja", "additional_chat_templates/tool.jinja", "modeling/own.py")
    for name in names[1:]:
        (place / "model" / name).parent.mkdir()
        (place / "model" / name).touch()
    bootstrapped(place)
    for name in names:
        before = (place / "model" / name).read_text()
        (place / "model" / name).write_text(before + " ")
        with pytest.raises(StoreError, match=name):
            Run.check(settings(place), "here", place / "runs")
        with pytest.raises((StoreError, ValueError), match=name):
            fork("here", 0, None, [], "other", place / "runs")
        (place / "model" / name).write_text(before)


def test_every_file_of_several_functions_is_looked_at(place: Path) -> None:
    for file in ("second.py", "third.py"):
        (place / file).write_text(REWARD.replace("score", file[:-3]))
    kinds = f"reward.kind=[{place / 'reward.py'}:score, {place / 'second.py'}:second]"
    given = config(kinds, f"reward.accuracy={place / 'third.py'}:third")
    run = Run.open(given, "several", place / "runs")
    assert len(run.store.read_run()["digests"]["files"]) == 3
    for name, setting in (("third.py", "reward.accuracy"), ("second.py", "reward.kind")):
        (place / name).write_text(INVERTED.replace("score", name[:-3]))
        with pytest.raises(StoreError, match=rf"{name} \({setting}\).* changed since it was started"):
            Run.check(given, "several", place / "runs")


def test_commits_without_run_json_are_not_a_new_run(place: Path) -> None:
    store = bootstrapped(place).store
    (store.directory / "run.json").unlink()
    for settings_of_it in (settings(place), config("learner.lr=0.5")):
        with pytest.raises(StoreError, match=r"its run\.json is gone"):
            Run.open(settings_of_it, "here", place / "runs")


def test_a_model_of_the_hub_is_known_by_its_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with code of its own, as DiffuCoder, was refused although model.trust_remote_code was set."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    revision, cached = "0123456789" * 4, tmp_path / "models--some--model"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(revision)
    snapshot = cached / "snapshots" / revision
    snapshot.mkdir(parents=True)
    own = {"model_type": "own", "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}
    (snapshot / "config.json").write_text(json.dumps(own))
    (snapshot / "configuration_own.py").write_text("raise AssertionError('it was executed')")
    assert model_digest("some/model") == revision
    with pytest.raises(ConfigError, match="no model of the hub"):
        model_digest("some/other")
