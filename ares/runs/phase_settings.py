"""Which settings each phase of a step depends on, and so what a fork that shares the phase cannot change.

Covered: every setting that changes results, under the first phase that it affects; settings whose effect depends on
others; what a checkpoint must hold. A setting that no table names fails a test (tests/ares/runs/test_phase_settings.py,
which also records what the phases read). Not covered: data and weights, which are compared by content
(ares/runs/digests.py).
"""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from ares.config import Config, ConfigError, result_settings

PHASES = ("rollout", "score", "experience", "shape")
"""What a fork can share of its first step. To share the update too is to share the step: without a phase."""
BOOTSTRAP = "the bootstrap"
"""Every fork shares it."""
WEIGHTS = "the checkpoint"
"""What a fork after step 1 or later starts from."""
UPDATE = "update"
"""No fork shares it, or anything after it."""
ALIKE = "alike"
"""These change only the last bits of what phases compute (threads, ranks, rows in a pass)."""

FIRST_USE: dict[str, tuple[str, ...]] = {
    BOOTSTRAP: ("bootstrap.n", "bootstrap.max_prompts", "model.family", "algorithm.difficulty.alpha_init"),
    "rollout": (
        "model.dtype", "model.trust_remote_code", "train.seed",
        "data.train_split", "data.prompt_key", "data.answer_key", "data.tests_key", "data.id_key", "data.format_prompt",
        "data.limit", "data.system_prompt", "data.chat_template_kwargs",
        "data.drop_shared", "data.max_prompt_length", "data.images_key", "data.videos_key", "data.image_dir",
        "data.min_pixels", "data.max_pixels", "data.video_fps",
        "rollout.engine", "rollout.settings", "rollout.diffusion.steps", "rollout.diffusion.alg",
        "rollout.diffusion.alg_temp", "rollout.n", "rollout.prompts", "rollout.max_response_length",
        "rollout.temperature", "rollout.top_p", "rollout.shard_prompts", "rollout.max_staleness", "rollout.parts",
        "rollout.second_turn.enabled", "rollout.second_turn.children", "rollout.second_turn.max_feedback_length",
        "rollout.second_turn.shuffled",
    ),
    "score": (
        "reward.kind", "reward.weights", "reward.accuracy", "reward.settings", "reward.timeout", "reward.max_unscored",
        "reward.code.accuracy", "reward.code.cpu_seconds", "reward.code.memory_mb", "reward.code.packages",
        "reward.code.untrusted",
    ),
    "experience": ("algorithm.policy.old_log_probs", "model.mask_estimate"),
    "shape": (
        "rollout.second_turn.credit", "rollout.second_turn.credit_share",
        "reward.code.design", "reward.code.settings", "reward.code.error_policy", "reward.code.weight",
        "reward.code.format_weight", "reward.code.efficiency", "reward.code.efficiency_start", "reward.code.test_alpha",
        "reward.code.test_ema", "reward.code.verpo",
        "algorithm.difficulty.alpha_lr", "algorithm.difficulty.alpha_min", "algorithm.difficulty.alpha_max",
        "algorithm.difficulty.target_mode", "algorithm.difficulty.target_ema", "algorithm.difficulty.shuffled",
        "algorithm.difficulty.drop_allpass_entropy_threshold",
        "algorithm.entropy.window", "algorithm.entropy.percentile", "algorithm.entropy.threshold_ema",
        "algorithm.entropy.trigger_tokens",
        "algorithm.aepo.enabled", "algorithm.aepo.zero_baseline", "algorithm.aepo.guard_inversion",
        "algorithm.overlong.mask_truncated", "algorithm.overlong.include_truncated_in_baseline",
        "algorithm.overlong.soft_punish_cache", "algorithm.overlong.soft_punish_weight",
        "algorithm.filter.enabled", "algorithm.filter.key", "algorithm.filter.low", "algorithm.filter.high",
        "algorithm.filter.max_tries",
        "algorithm.kl.placement", "algorithm.kl.kind", "algorithm.kl.settings", "algorithm.kl.penalty",
        "algorithm.kl.coef", "algorithm.kl.target", "algorithm.kl.horizon", "algorithm.kl.mode",
        "algorithm.kl.beta_interval", "algorithm.kl.relax_hwe", "algorithm.kl.relax_scope",
        "algorithm.kl.relax_wrong_easy",
        "algorithm.advantage.estimator", "algorithm.advantage.settings", "algorithm.advantage.norm_by_std",
        "algorithm.advantage.gamma", "algorithm.advantage.lam",
        "algorithm.policy.importance_cap", "algorithm.policy.importance_weights",
    ),
    UPDATE: (
        "model.lora", "model.train_vision", "model.gradient_checkpointing",
        "algorithm.kl.reference_sync",
        "algorithm.policy.loss", "algorithm.policy.settings", "algorithm.policy.ratio", "algorithm.policy.clip_low",
        "algorithm.policy.clip_high", "algorithm.policy.clip_dual", "algorithm.policy.aggregation",
        "algorithm.policy.epochs",
        "learner.lr", "learner.warmup_steps", "learner.betas", "learner.weight_decay", "learner.max_grad_norm",
        "learner.global_batch_prompts", "learner.critic_lr", "learner.critic_clip",
        "data.validation", "data.validation_split",
        "validation.every", "validation.n", "validation.temperature", "validation.max_prompts", "validation.turns",
        "validation.few_steps",
    ),
    ALIKE: (
        "model.path", "data.train",  # what lies there is compared
        "learner.micro_batch_tokens", "learner.device", "learner.threads", "learner.ranks", "learner.sharded",
        "rollout.threads", "rollout.engines", "rollout.vllm.max_sequences", "rollout.vllm.images",
        "rollout.vllm.tensor_parallel", "rollout.diffusion.batch",
    ),
}  # fmt: skip
"""Every setting that changes results, under the first phase that it affects; it affects all later ones, too."""

Rule = Callable[[Config, Config], bool]
"""(before, after) → whether what is shared was computed differently, or lacks something."""
CHOSEN_GROUPS = (
    "algorithm.filter.enabled", "algorithm.filter.key", "algorithm.filter.low", "algorithm.filter.high",
    "algorithm.filter.max_tries", "algorithm.overlong.mask_truncated",
    "algorithm.overlong.include_truncated_in_baseline",
)  # fmt: skip
EARLIER: dict[str, dict[str, Rule]] = {
    BOOTSTRAP: {
        "algorithm.kl.coef": lambda _, after: _only_starts_there(after),
    },
    WEIGHTS: {
        "model.lora": lambda *_: True,
        "model.train_vision": lambda _, after: after.model.lora is not None,
        "algorithm.advantage.estimator": lambda before, after: _needs_values(after) and not _needs_values(before),
        "algorithm.kl.reference_sync": lambda before, after: _other_reference(before, after),
        "algorithm.kl.placement": lambda before, after: _other_reference(before, after),
    },
    "rollout": {
        "algorithm.advantage.estimator": lambda before, after: _needs_greedy(before) != _needs_greedy(after),
    },
    "experience": {
        "algorithm.advantage.estimator": lambda before, after: _needs_values(after) and not _needs_values(before),
        "algorithm.kl.placement": lambda before, after: before.algorithm.kl.placement == "none",
        "algorithm.kl.penalty": lambda _, after: after.algorithm.kl.penalty == "full",
        "algorithm.policy.epochs": lambda _, after: after.model.family == "masked_diffusion",  # masks of each epoch
        **dict.fromkeys(CHOSEN_GROUPS, lambda before, after: not (before.measures_all and after.measures_all)),
    },
}
"""Settings that affect something before their phase in FIRST_USE if a rule holds."""
OF_STEPS = {
    "rollout.max_staleness",
    "rollout.second_turn.enabled", "rollout.second_turn.children", "rollout.second_turn.shuffled",
}  # fmt: skip
"""Settings of sampling that do not affect the bootstrap and its evaluation: held-out problems get one real second turn
however a run is trained."""


def bootstrap_settings(config: Config) -> dict[str, Any]:
    """The settings that the bootstrap's responses, grades and log-probs depend on, and a few more.

    Left out are those that affect only shaping and updates, or what later steps sample. Engines are given the longest
    sequence.
    """
    named = {name for part in ("rollout", "experience", WEIGHTS) for name in EARLIER[part]} - set(CHOSEN_GROUPS)
    later = {*FIRST_USE["shape"], *FIRST_USE[UPDATE]} - named
    of_them = {name for name in later if not name.startswith(("model.", "data.", "validation."))} | OF_STEPS
    settings = {name: value for name, value in result_settings(config).items() if _whole(name) not in of_them}
    return settings | {"longest_sequence": config.longest_sequence}


def check_fork(before: Config, after: Config, files: dict[str, str], at: int, phase: str | None) -> None:
    """Raise ConfigError, naming them, if a fork changes settings that something it shares was computed with.

    files: those whose content has changed, and the settings that name them. at, phase: as in `fork`.
    """
    conflicts = in_the_way(before, after, set(files.values()), shared_parts(at, phase))
    if not conflicts:
        return
    told = [f"{name}: {_shown(before, name)} → {_shown(after, name)} ({part})" for name, part in conflicts.items()]
    earliest = next(part for part in (BOOTSTRAP, WEIGHTS, *PHASES) if part in conflicts.values())
    if earliest not in PHASES:
        remedy = "That takes a run of its own: ares train"
    elif earliest == PHASES[0]:
        remedy = f"Share less: --at {at - 1} without --phase"
    else:
        remedy = f"Share less: --phase {PHASES[PHASES.index(earliest) - 1]}"
    raise ConfigError("The fork would share what was computed with other settings:\n  " + "\n  ".join([*told, remedy]))


def shared_parts(at: int, phase: str | None) -> tuple[str, ...]:
    """What a fork shares, in the order of computation."""
    version = at if phase is None else at - 1
    weights = (WEIGHTS,) if version else ()
    return (BOOTSTRAP, *weights, *(PHASES[: PHASES.index(phase) + 1] if phase else ()))


def in_the_way(before: Config, after: Config, files: set[str], parts: tuple[str, ...]) -> dict[str, str]:
    """Settings that differ and that a shared part was computed with, and the first such part."""
    changed = changed_settings(before, after) | files
    conflicts: dict[str, str] = {}
    for part in parts:
        rules = EARLIER.get(part, {})
        named = {name for name in changed & rules.keys() if rules[name](before, after)}
        for name in sorted(named | changed & set(FIRST_USE.get(part, ()))):
            conflicts.setdefault(name, part)
    return conflicts


def changed_settings(before: Config, after: Config) -> set[str]:
    """Result-changing settings that differ, by their names in FIRST_USE (an optional section counts as one)."""
    old, new = result_settings(before), result_settings(after)
    names = {name for name in old | new if old.get(name) != new.get(name)}
    return {_whole(name) for name in names}


OPTIONAL_SECTIONS = ("model.lora", "reward.code.verpo")


def _whole(name: str) -> str:
    """The optional section that holds a setting; any other setting itself."""
    return next((whole for whole in OPTIONAL_SECTIONS if name.startswith(f"{whole}.")), name)


def _shown(config: Config, name: str) -> str:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return repr(value.model_dump(mode="json") if isinstance(value, BaseModel) else value)


def _needs_values(config: Config) -> bool:
    return config.algorithm.advantage.needs_values


def _needs_greedy(config: Config) -> bool:
    return config.algorithm.advantage.needs_greedy


def _only_starts_there(config: Config) -> bool:
    """Whether the KL coefficient is only the start value of a controller."""
    kl = config.algorithm.kl
    return kl.kind == "adaptive" or (kl.kind == "token_adaptive" and kl.mode == "compound")


def _other_reference(before: Config, after: Config) -> bool:
    """Whether a checkpoint has a moved reference that is to stay fixed, or lacks one that is to move."""
    if after.algorithm.kl.placement == "none":
        return False
    kls = (before.algorithm.kl, after.algorithm.kl)
    moving = [kl.reference_sync is not None and kl.placement != "none" for kl in kls]
    return moving[0] != moving[1]
