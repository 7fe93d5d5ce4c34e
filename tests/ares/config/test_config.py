import json
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from ares.config import (
    PROFILES,
    ConfigError,
    differences,
    fingerprint,
    from_dict,
    load,
    override,
    result_settings,
    sections,
)
from ares.config.algorithm import AlgorithmConfig
from ares.config.run import LoraConfig
from tests.ares.config.refusal import refusal

VERPO = "{alpha: 1, sigma: 1, delta: 1, gamma: 0.1, beta: 1}"
OFF = "aepo: {enabled: false}"
ENGINE = f"{OFF}, kl: {{placement: none}}, policy: {{old_log_probs: engine}}"
MINIMAL = "model: {path: somewhere}\ndata: {train: problems.jsonl}\n"


@pytest.fixture
def profile(tmp_path: Path) -> Any:
    def write(text: str, name: str = "mine.yaml") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


# ---- validation ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ("algorithm.kl.knd=fixed", "algorithm.kl.knd is unknown (did you mean kind?)"),
        ("rolout.n=4", "rolout is unknown (did you mean rollout?)"),
        ("learner.zzz=4", "learner.zzz is unknown (known: lr, warmup_steps"),
        ("rollout.top_p=1.5", "rollout.top_p"),
        ("learner.lr=0", "learner.lr"),
        ("algorithm.difficulty.alpha_init={easy: 1, medium: 1, hrad: 1}", "algorithm.difficulty.alpha_init"),
        ("data.train={a: x}", "a mixture has two sources or more"),
        ("data.train={a: x, b: [y]}", r"b: a source is a text"),
        ("algorithm.advantage.estimator=none", r"estimator=none learns from KL alone: set kl.placement=loss and model"),
        ("data.weights={a: 1}", r"data.weights: one for each source of a mixture"),
        ("data={train: {a: x, b: y}, weights: {a: 1, c: 1}}", "by name; only one of the two has b, c"),
        ("data={train: {a: x, b: y}, weights: {a: {0: 1, 9: 0}, b: {9: 0, 20: 1}}}", "nothing is drawn from at step 9"),
        ("data={train: {a: x, b: y}, weights: {a: 1, b: {}}}", "data.weights: Dictionary should have at least 1 item"),
        ("data.curriculum={}", "data.curriculum: its levels are the sources of data.train: name two or more"),
        ("data={order: easy_first, train: [a, b], curriculum: {}}", "data.curriculum and data.weights order problems"),
        ("data={train: [a, b], grows: true}", "data.grows: data.train is one folder then"),
        ("data={train: a, grows: true, limit: 3}", "data.grows: data.limit would leave new rows out"),
        ("reward={kind: [math, code], accuracy: math}", "reward.kind: code stands alone"),
        ("reward.by_row=true", "reward.by_row chooses among several kinds"),
        ("reward={by_row: true, kind: [math, code], accuracy: code}", "each row's own score is its accuracy"),
        ("reward={by_row: true, kind: [math, code], code: {efficiency: 0.1}}", "are worth reward.code.accuracy"),
        ("learner={compile: true, sharded: true}", "learner.compile is for causal models without learner.sharded"),
        ("learner={optimizer: adamw_8bit, offload_optimizer: true}", "optimizer=adamw_8bit needs whole weights"),
        ("reward.answer=Boxed", "reward.answer: this is neither boxed, last_line, hash nor tag NAME"),
        ("reward.answer=(", "reward.answer: not a regular expression"),
        ("reward.answer=tag <answer>", "reward.answer: this is neither boxed"),
        ("reward.kind=model", "reward.kind=model needs reward.model.path"),
        ("reward={kind: model, model: {path: x}}", "reward.kind=model has a scale of its own"),
        ("data.format_prompt=no place", "data.format_prompt: there is no {prompt}"),
        ("algorithm.kl={kind: bucket_beta, placement: reward}", "algorithm.kl: kind=bucket_beta"),
        ("algorithm.kl={penalty: full, placement: reward, kind: fixed}", "algorithm.kl: penalty=full"),
        ("algorithm.kl={penalty: kl, placement: loss}", "algorithm.kl: penalty=kl in the loss has"),
        ("learner={sharded: true, offload_optimizer: true}", "offload_optimizer is for whole weights"),
        ("algorithm.policy.old_log_probs=engine", "algorithm.policy.old_log_probs=engine leaves out"),
        (
            "algorithm.policy={importance_weights: masked, importance_cap: 1}",
            "keeps 1/importance_cap to importance_cap",
        ),
        (
            "algorithm.policy={importance_weights: rejected, importance_floor: 3}",
            "keeps importance_floor to importance",
        ),
        ("tracking.kind=[mlflow, wandbb]", "tracking.kind: 'wandbb' is not a tracker (did you mean wandb?)"),
        ("learner.schedule=cosine", "decay_steps is for schedule=linear and cosine, which need it (schedule=cosine)"),
        ("learner.decay_steps=5", "decay_steps is for schedule=linear and cosine, which need it (schedule=constant)"),
        ("learner={optimizer: muon, sharded: true}", "learner.optimizer=muon needs whole matrices"),
        ("algorithm=dap", "algorithm: 'dap' is neither a section nor a preset (did you mean dapo?)"),
        ("algorithm.advantage.estimator=maxrl", "maxrl is for rewards 0 and 1: set algorithm.aepo.enabled=false"),
        ("algorithm={advantage: {estimator: gdpo}, kl: {placement: reward}}", "gdpo compares each part of the reward"),
        ("algorithm={advantage: {estimator: gdpo}, aepo: {enabled: true}}", "gdpo divides each part of the reward"),
        (
            f"algorithm={{{OFF}, advantage: {{estimator: pass_at_k, settings: {{k: 9}}}}}}",
            "k (9) must be at most rollout.n",
        ),
        ("algorithm.policy={loss: cispo, ratio: sequence}", "ratio=sequence (GSPO) is for loss=ppo; cispo has a ratio"),
        ("algorithm.policy={loss: cispo, settings: {tau: 1}}", "policy.settings.tau is unknown (known: limit)"),
        ("algorithm.policy={loss: cispo, settings: {limit: 0}}", "algorithm.policy.settings.limit: Input should be"),
        ("algorithm.policy.loss=cipso", "algorithm.policy.loss: 'cipso' is not a policy loss (did you mean cispo?)"),
        ("learner.global_batch_prompts=7", "learner.global_batch_prompts (7) must divide rollout.prompts (16)"),
        ("rollout={engine: vllm, temperature: 0.005}", "rollout.temperature=0.005: rollout.engine=vllm"),
        # What the mathematics would refuse only in the middle of a run is refused here.
        ("algorithm.filter={low: 0.9, high: 0.1}", "algorithm.filter: low"),
        ("algorithm.difficulty.alpha_init={easy: 1}", "algorithm.difficulty.alpha_init: no value for medium, hard"),
        ("algorithm.difficulty={alpha_min: 1, alpha_max: 0.5}", "algorithm.difficulty: alpha_min"),
        ("algorithm.kl.coef=-1", "algorithm.kl.coef"),
        ("algorithm.kl={kind: adaptive, target: 0}", "algorithm.kl: kind=adaptive"),
        ("algorithm.overlong.soft_punish_cache=73", "algorithm.overlong.soft_punish_cache"),
        ("learner.betas=[0.9, 1.0]", "learner.betas"),
        ("rollout.top_p=0.9", "rollout.top_p=0.9 draws from another distribution"),
        ("reward.code={efficiency: 0.27}", "reward.code.efficiency"),
        ("reward.code={efficiency: 0.25, design: pass_ratio}", "efficiency (0.25) is at most 0.2 with design=pass_"),
        ("reward.code={efficiency: 0.1, efficiency_start: 72}", "reward.code.efficiency_start (72) must be below"),
        (f"reward.code={{design: verpo, efficiency: 0.2, verpo: {VERPO}}}", "efficiency (0.2) is at most verpo.gamma"),
        ("algorithm.kl={kind: fixed, coef: {easy: 1, medium: 1, hard: 1}}", "algorithm.kl: kind=fixed"),
        ("algorithm.kl={kind: adaptive, target: {easy: 1, medium: 1, hard: 1}}", "algorithm.kl: kind=adaptive"),
        (f"algorithm={{{ENGINE}, entropy_bonus: {{target: 1}}}}", "entropy_bonus: target and share need"),
        (f"algorithm={{{ENGINE}, entropy_bonus: {{coef: 1, share: 0.5}}}}", "bonus: target and share need exact"),
        (
            f"algorithm={{{OFF}, advantage: {{estimator: pass_at_k}}, overlong: {{soft_punish_cache: 9}}}}",
            "pass_at_k is for",
        ),
        ("algorithm.policy={loss: clip_cov, settings: {low: 5}}", "algorithm.policy.settings: low (5.0) must be below"),
    ],
)
def test_an_unknown_key_and_a_bad_value_are_errors_that_name_the_field(wrong: str, field: str) -> None:
    assert field in refusal("tiny-math", wrong)


def test_what_is_wrong_with_a_section_does_not_repeat_it() -> None:
    assert refusal("tiny-math", "data.validation={}").endswith("data.validation: no held-out set is named")


def test_an_answer_may_be_all_that_a_regular_expression_finds() -> None:
    assert load("tiny-math", [r"reward.answer=\d+"]).reward.answer == r"\d+"


def test_all_errors_of_a_profile_are_reported_at_once(profile: Any) -> None:
    said = refusal(profile("model: {}\nrollout: {n: 0}\nfoo: 1\n"))
    assert "model.path is missing" in said
    assert "data is missing" in said
    assert "rollout.n" in said
    assert "foo is unknown" in said


# ---- profiles ------------------------------------------------------------------------------------------------------


def test_base_is_a_fragment_that_lacks_only_model_and_data() -> None:
    said = refusal("base")
    assert "model is missing" in said
    assert "data is missing" in said
    assert said.count(";") == 1


def test_extends_lays_a_profile_over_another_field_by_field(profile: Any) -> None:
    grandparent = profile(MINIMAL + "rollout: {n: 4, prompts: 8}\ntrain: {steps: 7}\n", "a.yaml")
    parent = profile(f"extends: {grandparent}\nrollout: {{n: 6}}\n", "b.yaml")
    config = load(profile(f"extends: {parent}\ntrain: {{seed: 3}}\n", "c.yaml"))
    assert (config.rollout.n, config.rollout.prompts, config.train.steps, config.train.seed) == (6, 8, 7, 3)


def test_sets_of_data_by_name_are_a_whole_in_a_profile_as_in_an_override(profile: Any) -> None:
    """A child's mixture was trained on together with its parent's."""
    beneath = profile("extends: tiny-math\ndata: {train: {x: a.jsonl, y: b.jsonl}, weights: {x: 1, y: 2}}\n", "a.yaml")
    above = profile(f"extends: {beneath}\ndata: {{train: {{v: c.jsonl, z: d.jsonl}}, weights: {{v: 1, z: 1}}}}\n")
    override = ["data.train={v: c.jsonl, z: d.jsonl}", "data.weights={v: 1, z: 1}"]
    assert load(above).data == load(beneath, override).data


def test_a_run_that_learns_from_turns_can_be_evaluated_on_a_suite() -> None:
    turns = ["algorithm.advantage.estimator=rloo_by_turn", "environment.reward=sum"]
    run = load("tiny-game", turns)
    assert override(run, ["reward={kind: code}", "environment=null"], trains=False).reward.kind == "code"
    with pytest.raises(ConfigError, match="rloo_by_turn takes rewards turn by turn"):
        override(run, ["reward={kind: math}", "environment=null"])


PRESETS = sorted(path.stem for path in (PROFILES / "algorithms").glob("*.yaml"))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_the_whole_section_in_a_profile_and_as_an_override(preset: str, profile: Any) -> None:
    needed = {"distill": ["model.reference=teacher"], "dpo": ["learner.global_batch_prompts=16"]}.get(preset, [])
    section = load("tiny-math", [f"algorithm={preset}", *needed]).algorithm
    assert section == AlgorithmConfig.model_validate(
        yaml.safe_load((PROFILES / f"algorithms/{preset}.yaml").read_text())
    )
    named = profile(f"extends: tiny-math\nalgorithm: {preset}\n")
    assert load(named, needed).algorithm == section


def test_what_is_set_besides_a_preset_is_laid_over_it(profile: Any) -> None:
    before = ["algorithm.policy.epochs=2", "algorithm=dapo"]
    assert load("tiny-math", before) == load("tiny-math", before[::-1])
    assert load("tiny-math", before).algorithm.policy.epochs == 2
    beneath = profile("extends: tiny-math\nalgorithm: gspo\n", "beneath.yaml")
    above = profile("extends: beneath.yaml\nalgorithm: {policy: {epochs: 3}}\n")
    assert (load(above).algorithm.policy.ratio, load(above).algorithm.policy.epochs) == ("sequence", 3)
    assert load(beneath, ["algorithm=dapo"]).algorithm.policy.ratio == "token"
    assert load("tiny-math", ["algorithm.policy.epochs=2", 'algorithm="dapo"']).algorithm.policy.epochs == 2
    misspelt = profile("extends: tiny-math\nalgorithm: dapoo\n", "misspelt.yaml")
    assert refusal(misspelt) == f"{misspelt}: algorithm: 'dapoo' is neither a section nor a preset (did you mean dapo?)"
    contradicting = refusal("tiny-math", "algorithm=prime", "algorithm.kl.placement=loss")
    assert "algorithm.policy.old_log_probs=engine leaves out" in contradicting


def test_an_error_names_the_whole_chain_of_profiles(profile: Any) -> None:
    parent = profile("rollout: {n: 0}\n", "b.yaml")
    assert refusal(profile(f"extends: {parent}\n{MINIMAL}", "c.yaml")).startswith("c.yaml ← b.yaml: ")


def test_a_setting_that_is_gone_and_was_null_is_nothing(profile: Any) -> None:
    """`ares new` of earlier versions wrote it into every profile."""
    with_it = MINIMAL + "reward: {code: {verdicts: %s}}\n"
    assert load(profile(with_it % "null", "a.yaml")) == load(profile(MINIMAL, "b.yaml"))
    assert "verdicts is unknown" in refusal(profile(with_it % "here", "c.yaml"))


def test_a_key_may_stand_in_two_sections_and_overrule_an_anchor(profile: Any) -> None:
    config = load(profile("extends: tiny-math\nrollout: &a\n  n: 4\nvalidation:\n  <<: *a\n  n: 8\n"))
    assert (config.rollout.n, config.validation.n) == (4, 8)


# ---- overrides -----------------------------------------------------------------------------------------------------


def test_a_source_is_a_text_a_list_or_held_out_sets_by_name(profile: Any) -> None:
    given = [
        "data.train=[a.jsonl, b/*.csv]",
        "data.validation={aime: a@b.jsonl, own: {source: [c.csv], prompt_key: q, split: dev}}",
    ]
    data = load("tiny-math", [*given, "data.validation_split=validation"]).data
    assert {name: each.split for name, each in data.held_out.items()} == {"aime": "validation", "own": "dev"}
    assert data.train == ["a.jsonl", "b/*.csv"]
    assert (data.held_out["aime"].source, data.held_out["own"].prompt_key) == ("a@b.jsonl", "q")
    own = data.with_columns_of("own")
    assert (own.prompt_key, own.answer_key) == ("q", "answer")
    dotted = ["data.validation=null", "data.validation.own.source=*.csv", "data.validation.own.prompt_key=no"]
    named = load("tiny-math", dotted).data.held_out["own"]
    assert (named.source, named.prompt_key) == ("*.csv", "no")
    assert fingerprint(load("tiny-math", given)) != fingerprint(load("tiny-math", [given[0]]))
    text = load("tiny-math", ["data.train=*.jsonl"]).data
    assert (text.train, list(text.held_out)) == ("*.jsonl", [""])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{aime: {sorce: a}}", "aime.sorce is unknown (did you mean source?)"),
        ("{aime: {source: a, promt_key: q}}", "aime.promt_key is unknown (did you mean prompt_key?)"),
        ("{aime: 7}", "aime.source: Input should be a valid string"),
        ("{a/b: x}", "'a/b' cannot name a held-out set"),
        (f"{{{'a' * 51}: x}}", f"'{'a' * 51}' cannot name a held-out set"),
        ("{second_turn: x}", "'second_turn' cannot name a held-out set: val/second_turn/… are metrics of all sets"),
        ("{}", "no held-out set is named"),
    ],
)
def test_an_invalid_held_out_set_is_refused(given: str, told: str) -> None:
    said = refusal("tiny-math", f"data.validation={given}").replace("aime.source is missing; ", "")
    assert f"data.validation: {told}" in said


@pytest.mark.parametrize(
    ("problems", "settings", "told"),
    [
        (16, (), None),
        (15, (), "15 problems are fewer than rollout.prompts=16: set rollout.prompts=8"),
        (7, (), "7 problems are fewer than rollout.prompts=16: set rollout.prompts=7 learner.global_batch_prompts=7"),
        (500, ("rollout.prompts=512", "learner.global_batch_prompts=128"),
         "500 problems are fewer than rollout.prompts=512: set rollout.prompts=384"),
    ],
)  # fmt: skip
def test_too_big_a_batch_is_refused_with_one_that_fits(
    problems: int, settings: tuple[str, ...], told: str | None
) -> None:
    config = load("tiny-math", list(settings))
    assert config.too_few(problems) == told
    if told is not None:
        fits = override(config, told.partition("set ")[2].split())
        assert fits.too_few(problems) is None


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ("learner.lr=1e-6", 1e-6),
        ("learner.lr=2.5E-5", 2.5e-5),
        ("rollout.n=3", 3),
        ("data.validation=null", None),
        ("algorithm.aepo.enabled=false", False),
        ("learner.betas=[0.8, 0.9]", (0.8, 0.9)),
        ("data.format_prompt=a=b {prompt}", "a=b {prompt}"),
        ("data.format_prompt=Question: {prompt}", "Question: {prompt}"),  # to YAML a mapping
        ("data.format_prompt={prompt}", "{prompt}"),
        ("data.format_prompt={prompt} # think", "{prompt} # think"),  # a comment
        ("data.format_prompt=# {prompt}", "# {prompt}"),
        ("data.format_prompt=[{prompt}]", "[{prompt}]"),
        ("data.format_prompt='{prompt}': think", "'{prompt}': think"),
        ("data.format_prompt=*{prompt}*", "*{prompt}*"),
        ('data.format_prompt="{prompt}\\nThink."', "{prompt}\nThink."),
        ("data.format_prompt={prompt}\n  Think.\n", "{prompt}\n  Think.\n"),
        ("data.format_prompt=null", None),
        ("algorithm.kl.coef={easy: 1, medium: 2, hard: 3}", {"easy": 1.0, "medium": 2.0, "hard": 3.0}),
        ("model.lora.rank=4", 4),
        # A column may be called anything.
        *((f"data.prompt_key={name}", name) for name in ("no", "1", "1e5", "2024-01-01", "a: b", "[x]")),
    ],
)
def test_a_dotted_override_sets_one_field_and_the_last_one_wins(given: str, value: Any) -> None:
    name = given.partition("=")[0]
    config = load("tiny-math", ["train.seed=1", given, "train.seed=2"])
    assert (attrgetter(name)(config), config.train.seed) == (value, 2)


def test_an_override_of_a_configuration_leaves_the_rest_as_it_was() -> None:
    before = load("tiny-math")
    after = override(before, ["rollout.n=4", "algorithm.aepo.enabled=false"])
    assert differences(before, after) == ["algorithm.aepo.enabled: True → False", "rollout.n: 8 → 4"]
    assert differences(before, before) == []
    assert before == load("tiny-math")


def test_an_optional_section_that_is_absent_is_made_by_an_override_of_one_of_its_fields() -> None:
    """`ares fork RUN model.lora.rank=4` said that lora was a value, not a section."""
    before = load("tiny-math")
    assert override(before, ["model.lora.rank=4"]).model.lora == LoraConfig(rank=4)
    with pytest.raises(ConfigError, match=r"model\.lora\.rnk is unknown \(did you mean rank\?\)"):
        override(before, ["model.lora.rnk=4"])
    with pytest.raises(ConfigError, match=r"overrides: reward\.code\.verpo\.sigma is missing"):
        override(before, ["reward.code.verpo.alpha=1"])
    with pytest.raises(ConfigError, match=r"rollout\.max_mismatch"):
        override(load("tiny-math", ["rollout.max_mismatch=null"]), ["rollout.max_mismatch.mean=1"])


@pytest.mark.parametrize(
    "setting",
    ["algorithm.kl.coef={easy: 1, medium: 2, hard: 3}", "data.validation={aime: a@b, own: {source: [c], id_key: q}}"],
)
def test_a_configuration_survives_its_way_through_json(setting: str) -> None:
    before = load("tiny-math", [setting])
    after = from_dict(json.loads(json.dumps(before.model_dump(mode="json"))), "run.json")
    assert (after, fingerprint(after)) == (before, fingerprint(before))


# ---- the fingerprint -----------------------------------------------------------------------------------------------


NO_EFFECT = {
    "train.steps", "train.tokens", "train.checkpoint_every", "train.keep_checkpoints",
    "tracking.kind", "tracking.settings", "tracking.uri", "tracking.experiment", "tracking.samples",
    "tracking.parent_run", "tracking.tags",
    "rollout.vllm.cpu_cache_gib", "rollout.vllm.gpu_memory", "rollout.max_mismatch", "rollout.placement",
    "learner.offload_optimizer",
    "reward.judge.url", "reward.judge.at_once", "reward.judge.most_requests", "reward.judge.timeout",
    "reward.code.provider", "reward.code.workers", "reward.code.min_isolation",
    "watch.entropy_below", "watch.mismatch_above", "watch.unscored_above", "watch.truncated_above", "watch.margin",
    "watch.remedies", *(f"watch.{wire}.{name}" for wire in ("kept_below", "kl_above")
                        for name in ("limit", "steps", "action")),
}  # fmt: skip


def test_every_setting_but_these_is_part_of_the_fingerprint() -> None:
    config = load("tiny-math")
    every = {
        f"{section.name}.{each.name}".lstrip(".")
        for section in sections(config)
        for each in section.settings
        if section.given
    }
    assert every - result_settings(config).keys() == NO_EFFECT
    assert result_settings(config).keys() <= every


@pytest.mark.parametrize(
    ("setting", "changed"),
    [
        ("train.steps=7", []),
        ("tracking.tags={a: b}", []),
        ("learner.ranks=2", ["learner.ranks"]),
        ("model.lora.rank=4", ["model.lora.alpha", "model.lora.rank", "model.lora.targets"]),
        ("algorithm.kl.coef={easy: 1, medium: 2, hard: 3}", ["algorithm.kl.coef"]),
    ],
)
def test_the_fingerprint_changes_with_what_changes_results(setting: str, changed: list[str]) -> None:
    kind = "algorithm.kl.kind=token_adaptive"
    before, after = load("tiny-math", [kind]), load("tiny-math", [kind, setting])
    assert (fingerprint(after) == fingerprint(before)) == (not changed)
    assert [line.partition(":")[0] for line in differences(before, after)] == changed
