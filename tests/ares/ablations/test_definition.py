from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from ares.ablations.definition import check_same_problems, list_ablations, list_children, read_ablation
from ares.config import ConfigError
from ares.config.profiles import fingerprint, load
from ares.data import ASKED, Problems
from ares.step import evaluation_metrics

GOOD: dict[str, Any] = {
    "name": "leash",
    "profile": "tiny-math",
    "overrides": ["train.steps=5"],
    "variants": {"fixed": ["algorithm.kl.kind=fixed"], "as_it_is": []},
    "seeds": [3, 1],
}


OWN = "data.validation={own: h.jsonl}"


def written(folder: Path, **changes: Any) -> str:
    path = folder / "mine.yaml"
    settings = {key: value for key, value in (GOOD | changes).items() if value is not None}
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    return str(path)


def refusal(ablation: str, *extra: str) -> str:
    with pytest.raises(ConfigError) as caught:
        list_children(*read_ablation(ablation), list(extra))
    return str(caught.value)


def test_a_child_is_the_profile_with_the_common_the_variants_and_the_command_lines_settings(tmp_path: Path) -> None:
    found = list_children(*read_ablation(written(tmp_path)), ["learner.lr=1e-3"])
    assert [child.name for child in found] == [
        "leash-fixed-seed3", "leash-as_it_is-seed3", "leash-fixed-seed1", "leash-as_it_is-seed1",
    ]  # fmt: skip
    first = found[0]
    alone = load("tiny-math", ["train.steps=5", "algorithm.kl.kind=fixed", "learner.lr=1e-3", "train.seed=3"])
    assert fingerprint(first.config) == fingerprint(alone)
    assert first.config.train.steps == 5
    assert first.config.tracking.experiment == "leash"
    # The command that starts it says the same.
    assert load(first.profile, list(first.overrides)) == first.config


def test_another_name_is_another_experiment_and_other_runs(tmp_path: Path) -> None:
    ablation, source = read_ablation(written(tmp_path), name="tight")
    child = list_children(ablation, source)[0]
    assert (child.name, child.config.tracking.experiment) == ("tight-fixed-seed3", "tight")


def test_a_profile_beside_the_ablation_is_found_from_anywhere(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text("extends: tiny-math\nlearner: {lr: 0.001}\n")
    found = list_children(*read_ablation(written(tmp_path, profile="own.yaml")))
    assert found[0].config.learner.lr == 0.001


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"variant": {}}, "variant is unknown (did you mean variants?)"),
        ({"seeds": None}, "seeds is missing"),
        ({"seeds": [1, 1]}, "seeds: a seed is named twice"),
        ({"seeds": []}, "seeds: "),
        ({"variants": {"alone": []}}, "variants: "),
        ({"variants": {"a/b": [], "c": []}}, "variants: it is made of"),
        ({"variants": {"a": "train.steps=3", "b": []}}, "variants: Input should be a valid list (got 'train.steps=3')"),
        ({"name": "../up"}, "name: "),
        ({"profile": "tiny-maths"}, "did you mean tiny-math?"),
        ({"variants": {"a": ["algorithm.kl.knd=fixed"], "b": []}}, "variant 'a': tiny-math.yaml"),
        ({"variants": {"a": ["algorithm.kl.knd=fixed"], "b": []}}, "algorithm.kl.knd is unknown (did you mean kind?)"),
        ({"variants": {"a": [], "b": ["validation.n=2"]}}, "'b' is judged otherwise than 'a' (validation.n: "),
        ({"variants": {"a": [], "b": ["train.steps=3"]}}, "variant 'b': train.steps is one for all"),
        ({"baseline": "loose"}, "baseline: 'loose' is none of the variants (fixed, as_it_is)"),
        ({"baseline": "fixed", "no_worse": {"val/accuracy": 0}}, "no_worse"),
        ({"baseline": "fixed", "no_worse": {"val/aime/accuracy": 0.02}}, "needs a held-out set called 'aime'"),
        ({"baseline": "fixed", "interaction": ["val/accuracy"]}, "interaction"),
        ({"equal_tokens": 0}, "equal_tokens: "),
        ({"overrides": ["data.validation=null"]}, "'val/accuracy' needs held-out problems"),
        ({"primary": "val/aime/accuracy"}, "needs a held-out set called 'aime' (data.validation names none)"),
        ({"primary": "val/acuracy"}, "'val/acuracy' needs another name (did you mean accuracy?)"),
        ({"primary": "val/second_turn/acuracy"}, "needs a held-out set called 'second_turn'"),
        ({"no_worse": {"val/pass_ratio": 0.1}}, "variant 'fixed': metric 'val/pass_ratio' needs reward.kind=code"),
        ({"variants": {"a": [], "b": ["data.validation=null"]}}, "variant 'b': metric 'val/accuracy' needs held-out"),
        ({"primary": "val/second_turn/accuracy"}, "'val/second_turn/accuracy' needs validation.turns=2"),
        ({"primary": "val/ema/accuracy"}, "'val/ema/accuracy' needs learner.ema"),
        ({"primary": "area/val/few_steps/accuracy"}, "'val/few_steps/accuracy' needs validation.few_steps"),
        ({"primary": "val/own/acuracy", "overrides": [OWN]}, "'val/own/acuracy' needs another name (did you mean"),
        ({"primary": "val/aime/accuracy", "overrides": [OWN]}, "set called 'aime' (data.validation names own)"),
        ({"overrides": ["watch.kl_above={limit: 0.2, action: rewind}"]}, "'fixed': watch.kl_above.action=rewind"),
    ],
)
def test_what_cannot_be_compared_is_refused_by_field(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = written(tmp_path, **changes)
    told = refusal(path)
    assert told.startswith(path)
    assert said in told


CODE = {"profile": "tiny-code"}
SUM, NAMED = "reward.kind=[math, brief.py:brief]", "reward.accuracy=math"


@pytest.mark.parametrize(
    ("variant", "changes", "said"),
    [
        ("reward.answer=hash", {}, "reward.answer: None → 'hash'"),
        ("reward.code.cpu_seconds=9", CODE, "reward.code.cpu_seconds: 2.0 → 9.0"),
        ("reward.code.accuracy=pass_ratio", CODE, "reward.code.accuracy: 'all_passed' → 'pass_ratio'"),
        ("reward.code.design=sparse", CODE, None),
        ("reward.accuracy=0.5", {"overrides": [SUM, NAMED]}, "reward.accuracy: 'math' → 0.5"),
        ("reward.weights=[1, 2]", {"overrides": [SUM, "reward.accuracy=0.5"]}, "reward.weights: "),
        ("reward.weights=[1, 2]", {"overrides": [SUM, NAMED]}, None),
    ],
)
def test_variants_are_judged_alike(
    tmp_path: Path, variant: str, changes: dict[str, Any], said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("brief.py").write_text("def brief(completions, **columns):\n    return [1.0 for _ in completions]\n")
    path = written(tmp_path, **({"variants": {"a": [], "b": [variant]}} | changes))
    if said is None:
        list_children(*read_ablation(path))
    else:
        assert f"{path}: variant 'b' is judged otherwise than 'a' ({said}" in refusal(path)


@pytest.mark.parametrize(
    ("column", "is_same"), [("prompt", True), ("id", False), (ASKED, False), ("answer", False), (None, False)]
)
def test_variants_answer_the_same_held_out_problems(column: str | None, is_same: bool) -> None:
    """A template may put them in other words."""
    frame = pd.DataFrame({name: ["1", "2"] for name in ("prompt", "id", ASKED, "answer")})
    other = None if column is None else Problems("x", frame.assign(**{column: ["1", "3"]}), 0)
    sets = {"a": Problems("x", frame, 0), "b": other}
    if is_same:
        check_same_problems(sets)
    else:
        with pytest.raises(ConfigError, match="variants 'a' and 'b' have different held-out problems"):
            check_same_problems(sets)


def test_every_metric_of_held_out_problems_can_be_judged(tmp_path: Path) -> None:
    rows = pd.DataFrame({"slot": [0, 1], "id": ["a", "b"], "accuracy": [1.0, 0.0]})
    rows = rows.assign(tokens=3, format=1.0, truncated=False, score=1.0, score_f=1.0, pass_ratio=1.0,
                       error_type="accepted", denoising_passes=2)  # fmt: skip
    metrics = evaluation_metrics(rows)
    list_children(*read_ablation(written(tmp_path, profile="tiny-code", no_worse=dict.fromkeys(metrics, 0.1))))
    assert len(metrics) > 20


def test_an_unknown_ablation_is_an_error_that_names_the_nearest() -> None:
    assert "did you mean math-kl?" in refusal("math_kl")


@pytest.mark.parametrize("name", list_ablations())
def test_every_shipped_ablation_can_be_started(name: str) -> None:
    ablation, source = read_ablation(name)
    assert ablation.name == name
    for_one_seed = ablation.model_copy(update={"seeds": ablation.seeds[:1]})
    assert len(list_children(for_one_seed, source)) == len(ablation.variants)


def test_a_budget_of_tokens_is_every_childs(tmp_path: Path) -> None:
    found = list_children(*read_ablation(written(tmp_path, equal_tokens=900)))
    assert {child.config.train.tokens for child in found} == {900}
    assert {child.config.train.ends(4, 899) for child in found} == {False}
    assert {child.config.train.ends(4, 900) for child in found} == {True}
    assert {child.config.train.ends(5, 0) for child in found} == {True}
    assert load("tiny-math", ["train.steps=5"]).train.ends(4, 10**9) is False
