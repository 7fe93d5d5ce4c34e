"""Settings that contradict each other are refused; those on a command line that another one disables are found."""

from pathlib import Path

import pytest

from ares.ablations.definition import list_ablations, list_children, read_ablation
from ares.config import defaults, load, rules, sections, without_effect
from ares.config.extensions import GRADERS
from flows.cli.command import warn_of_idle

NONE = "algorithm.kl.placement=none"


@pytest.mark.parametrize(
    ("overrides", "idle"),
    [
        (["algorithm.kl.coef=0.1"], {}),
        (["algorithm.kl.coef=0.1", NONE], {"algorithm.kl.coef": NONE}),
        (["reward.code.design=sparse"], {"reward.code.design": "reward.kind=math"}),
        (["learner.critic_lr=1e-4"], {"learner.critic_lr": "algorithm.advantage.estimator=grpo"}),
        (["learner.critic_lr=1e-4", "algorithm.advantage.estimator=gae", "algorithm.advantage.lam=0.9"], {}),
        (["validation.n=8", "data.validation=null"], {"validation.n": "data.validation=null"}),
        (
            ["algorithm.filter.enabled=false", "algorithm.filter.low=0.1"],
            {"algorithm.filter.low": "algorithm.filter.enabled=false"},
        ),
        # Groups without two scores are drawn anew, too.
        (["algorithm.filter.enabled=false", "algorithm.filter.max_tries=2"], {}),
        (
            ["algorithm.kl.placement=reward", "algorithm.kl.penalty=kl", "algorithm.kl.relax_hwe=0.1"],
            {"algorithm.kl.relax_hwe": "algorithm.kl.placement=reward"},
        ),
        (["algorithm.kl.kind=fixed", "algorithm.kl.target=1"], {"algorithm.kl.target": "algorithm.kl.kind=fixed"}),
        (["rollout.vllm.gpu_memory=0.9"], {"rollout.vllm.gpu_memory": "rollout.engine=transformers"}),
        (["rollout.vllm.gpu_memory=0.9", "rollout.engine=vllm"], {}),
    ],
)
def test_an_override_that_does_nothing_is_named_with_the_reason(overrides: list[str], idle: dict[str, str]) -> None:
    assert without_effect(load("tiny-math", overrides), overrides) == idle


def test_a_grader_of_the_users_may_read_all_of_its_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls = "".join(f"    def {name}(self, *a): pass\n" for name in GRADERS.methods)
    Path("mine.py").write_text(f"class Own:\n{calls}")
    limit = "reward.code.cpu_seconds=5"
    assert without_effect(load("tiny-math", ["reward.kind=mine.py:Own", limit]), [limit]) == {}


def test_every_condition_names_a_setting_and_values_that_it_may_have() -> None:
    every = {f"{section.name}.{each.name}": each for section in sections(defaults()) for each in section.settings}
    conditions = {condition for name in [*every, "validation.n"] for condition in rules._conditions(name)}
    assert len(conditions) > 15
    for condition in conditions:
        name, _, values = condition.partition("=")
        assert name in every, condition
        assert not values or set(values.split("|")) <= set(every[name].choices) | {"math", "code"}, condition


@pytest.mark.parametrize("name", list_ablations())
def test_no_setting_of_a_shipped_ablation_is_without_effect(name: str, caplog: pytest.LogCaptureFixture) -> None:
    definition, source = read_ablation(name)
    warn_of_idle(*((child.config, child.overrides) for child in list_children(definition, source, None)))
    assert caplog.messages == []


def test_a_setting_is_warned_of_where_no_run_reads_it(caplog: pytest.LogCaptureFixture) -> None:
    coef = "algorithm.kl.coef=0.1"
    off, on = load("tiny-math", [NONE, coef]), load("tiny-math", [coef])
    warn_of_idle((off, [NONE, coef]), (on, [coef]))
    assert caplog.messages == []
    warn_of_idle((off, [NONE, coef]))
    assert caplog.messages == [f"algorithm.kl.coef has no effect with {NONE}"]
