"""Which settings a fork that shares a phase may change: every setting is assigned, and what phases read proves it."""

import pytest

from ares.config.profiles import load, override, result_settings
from ares.config.strict import ConfigError
from ares.runs.phase_settings import (
    ALIKE,
    BOOTSTRAP,
    FIRST_USE,
    OPTIONAL_SECTIONS,
    PHASES,
    UPDATE,
    bootstrap_settings,
    changed_settings,
    check_fork,
    earlier_uses,
    find_conflicts,
    first_use,
)

VERPO = ("alpha", "sigma", "delta", "gamma", "beta")


def test_every_setting_that_changes_results_has_its_first_phase_and_nothing_else_is_named() -> None:
    config = load("tiny-math")
    settings = set(result_settings(config))
    assert {first_use(name) for name in settings} == {BOOTSTRAP, *PHASES, UPDATE, ALIKE}
    sections = {".".join(name.split(".")[:length]) for name in settings for length in range(1, 9)}
    assert sorted(FIRST_USE.keys() - sections) == []
    assert {name for named in earlier_uses(config, config).values() for name in named} <= settings
    assert set(OPTIONAL_SECTIONS) <= settings


@pytest.mark.parametrize(
    ("profile", "base", "change", "first"),
    [
        ("tiny-math", [], ["algorithm.kl.penalty=full"], "experience"),
        ("tiny-math", [], ["algorithm.kl.penalty=mse"], "shape"),
        ("tiny-math", ["algorithm.kl.penalty=full"], ["algorithm.kl.penalty=low_var_kl"], "shape"),
        ("tiny-math", [], ["algorithm.advantage.estimator=gae"], "experience"),
        ("tiny-math", ["algorithm.advantage.estimator=gae"], ["algorithm.advantage.estimator=grpo"], "shape"),
        ("tiny-math", [], ["algorithm.advantage.estimator=remax"], "rollout"),
        ("tiny-math", ["algorithm.advantage.estimator=remax"], ["algorithm.advantage.estimator=grpo"], "rollout"),
        ("tiny-math", [], ["algorithm.advantage.estimator=rloo"], "shape"),
        ("tiny-math", ["algorithm.kl.placement=none"], ["algorithm.kl.placement=loss"], "experience"),
        ("tiny-math", [], ["algorithm.kl.placement=none"], "shape"),
        ("tiny-math", [], ["algorithm.kl.placement=reward"], "shape"),
        ("tiny-math", [], ["algorithm.filter.high=0.9"], "experience"),
        ("tiny-math", [], ["algorithm.overlong.mask_truncated=true"], "experience"),
        ("tiny-code", [], ["algorithm.filter.key=accuracy"], "shape"),
        ("tiny-code", [], ["reward.code.design=sparse"], "shape"),
        ("tiny-code", [], ["reward.code.accuracy=pass_ratio"], "score"),
        ("tiny-code", [], ["reward.kind=math"], "score"),
        ("tiny-code-feedback", [], ["rollout.second_turn.credit=mean"], "shape"),
        ("tiny-code-feedback", [], ["rollout.second_turn.shuffled=true"], "rollout"),
        ("tiny-math", [], ["rollout.temperature=0.9"], "rollout"),
        ("tiny-math", [], ["algorithm.policy.epochs=2"], None),
        ("tiny-diffusion", [], ["algorithm.policy.epochs=1"], "experience"),
        ("tiny-math", [], ["algorithm.policy.clip_high=0.4"], None),
        ("tiny-math", [], ["algorithm.policy.importance_cap=3"], "shape"),
        ("tiny-math", [], ["learner.lr=0.1"], None),
        ("tiny-math", [], ["rollout.threads=2"], None),
        ("tiny-math", [], ["bootstrap.n=3"], BOOTSTRAP),
        ("tiny-math", [], ["algorithm.difficulty.alpha_init=0.1"], BOOTSTRAP),
        ("tiny-math", [], ["algorithm.difficulty.shuffled=true"], "shape"),
        ("tiny-math", [], ["algorithm.kl.coef=0.5"], "shape"),
        ("tiny-math", ["algorithm.kl.mode=compound"], ["algorithm.kl.coef=0.5"], BOOTSTRAP),
    ],
)
def test_the_first_phase_of_a_change(profile: str, base: list[str], change: list[str], first: str | None) -> None:
    before = load(profile, base)
    after = override(before, change)
    (name,) = changed_settings(before, after)
    found = find_conflicts(before, after, set(), 1, "shape")
    assert found == ({} if first is None else {name: first})


@pytest.mark.parametrize(
    ("base", "change", "named"),
    [
        ([], ["algorithm.advantage.estimator=gae"], "algorithm.advantage.estimator"),
        ([], ["algorithm.kl.reference_sync=2"], "algorithm.kl.reference_sync"),
        (["algorithm.kl.reference_sync=2"], ["algorithm.kl.reference_sync=null"], "algorithm.kl.reference_sync"),
        (
            ["algorithm.kl.reference_sync=2", "algorithm.kl.placement=none"],
            ["algorithm.kl.placement=loss"],
            "algorithm.kl.placement",
        ),
        ([], ["model.lora={rank: 4}"], "model.lora"),
        (["model.lora={rank: 4}"], ["model.lora={rank: 8}"], "model.lora"),
        (["model.lora={rank: 4}"], ["model.lora=null"], "model.lora"),
    ],
)
def test_a_checkpoint_that_lacks_what_is_needed_is_refused(base: list[str], change: list[str], named: str) -> None:
    before = load("tiny-math", base)
    after = override(before, change)
    check_fork(before, after, {}, 0, None)  # nothing was trained yet: whatever is needed starts as it does in a run
    with pytest.raises(ConfigError, match=rf"{named}: .*\(the checkpoint\)\n.*a run of its own: ares train"):
        check_fork(before, after, {}, 1, None)
    check_fork(before, after, {}, 1, "rollout")


def test_the_refusal_names_settings_and_phases() -> None:
    before = load("tiny-math")
    after = override(before, ["algorithm.kl.penalty=full", "algorithm.aepo.enabled=false", "learner.lr=0.1"])
    check_fork(before, after, {}, 3, "score")
    with pytest.raises(ConfigError) as refused:
        check_fork(before, after, {}, 3, "shape")
    assert str(refused.value) == (
        "The fork would share what was computed with other settings:\n"
        "  algorithm.kl.penalty: 'low_var_kl' → 'full' (experience)\n"
        "  algorithm.aepo.enabled: True → False (shape)\n"
        "  Share less (--at, --phase), or begin a run of its own: ares train"
    )


def test_a_file_with_another_content_counts_as_its_setting() -> None:
    same = load("tiny-math")
    files = {"reward.py": "reward.kind", "triggers.txt": "algorithm.entropy.trigger_tokens"}
    check_fork(same, same, files, 2, "rollout")
    with pytest.raises(ConfigError, match=r"reward.kind: .*\(score\)\n"):
        check_fork(same, same, files, 2, "experience")


@pytest.mark.parametrize(
    ("profile", "change", "same"),
    [
        ("tiny-code", "reward.code.design=sparse", True),
        ("tiny-code", f"reward.code={{design: verpo, verpo: {dict.fromkeys(VERPO, 1)}}}", True),
        ("tiny-math", "algorithm.aepo.enabled=false", True),
        ("tiny-math", "algorithm.kl.coef=0.5", True),
        ("tiny-math", "algorithm.filter.high=0.9", True),
        ("tiny-math", "learner.lr=1e-3", True),
        ("tiny-code-secret", "rollout.second_turn.enabled=false", True),
        ("tiny-code-secret", "rollout.second_turn.children=2", True),
        ("tiny-code-secret", "rollout.second_turn.shuffled=true", True),
        ("tiny-math", "rollout.max_staleness=2", True),
        ("tiny-code-feedback", "rollout.second_turn.enabled=false", False),  # vLLM is told of shorter sequences
        ("tiny-code-secret", "rollout.second_turn.max_feedback_length=9", False),  # that of the first evaluation, too
        ("tiny-math", "train.seed=1", False),
        ("tiny-math", "bootstrap.n=2", False),
        ("tiny-math", "rollout.temperature=0.9", False),
        ("tiny-math", "algorithm.kl.placement=none", False),  # then no reference looks at the responses
        ("tiny-math", "algorithm.advantage.estimator=gae", False),
        ("tiny-math", "validation.n=2", False),
        ("tiny-math", "data.validation=null", False),
        ("tiny-math", "learner.threads=2", False),
        ("tiny-code", "reward.code.cpu_seconds=1", False),
        ("tiny-diffusion", "algorithm.policy.epochs=1", False),
    ],
)
def test_what_decides_the_draws_of_a_bootstrap(profile: str, change: str, same: bool) -> None:
    before, after = (bootstrap_settings(load(profile, settings)) for settings in ([], [change]))
    assert (before == after) == same
