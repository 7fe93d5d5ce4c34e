"""Which settings each phase of a step depends on, and so what a fork that shares the phase cannot change.

Covered: the first phase that each setting affects; settings whose effect depends on others; what a checkpoint must
hold. A phase that reads a setting which the table has later fails a test (tests/flows/test_settings_read.py). Not
covered: data and weights, which are compared by content (ares/runs/description.py).

    ares fork first --at 3 --phase score algorithm.kl.penalty=full      the fork shares …

    the bootstrap   the checkpoint    rollout   score   experience   shape   update
    (step 0)        (after step 2)    └──── of step 3 ─────────────────────────────┘
    ╰── shared: computed with the parent's ──╯  │
        settings, which cannot change           algorithm.kl.penalty=full is first read here: it may change
"""

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

FIRST_USE = {
    "bootstrap": BOOTSTRAP, "model.family": BOOTSTRAP, "algorithm.difficulty.alpha_init": BOOTSTRAP,
    "data.order": BOOTSTRAP, "data": "rollout", "rollout": "rollout", "environment": "rollout", "train.seed": "rollout",
    "model": "rollout",
    "reward": "score",
    "model.mask_estimate": "experience", "model.reference": "experience",
    "model.reference_name": "experience",
    "algorithm.policy.old_log_probs": "experience",
    "algorithm": "shape", "rollout.second_turn.credit": "shape", "rollout.second_turn.credit_share": "shape",
    "reward.code": "shape", "reward.code.accuracy": "score", "reward.code.cpu_seconds": "score",
    "reward.code.memory_mb": "score", "reward.code.packages": "score", "reward.code.untrusted": "score",
    "model.lora": UPDATE, "model.train_vision": UPDATE, "model.gradient_checkpointing": UPDATE, "learner": UPDATE,
    "algorithm.policy": UPDATE, "algorithm.kl.reference_sync": UPDATE,
    "algorithm.policy.importance_cap": "shape", "algorithm.policy.importance_weights": "shape",
    "algorithm.policy.importance_level": "shape", "algorithm.policy.importance_floor": "shape",
    "validation": UPDATE, "data.validation": UPDATE, "data.validation_split": UPDATE,
    "model.path": ALIKE, "data.train": ALIKE,  # what lies there is compared
    "learner.micro_batch_tokens": ALIKE, "learner.compile": ALIKE, "learner.device": ALIKE,
    "learner.threads": ALIKE, "learner.ranks": ALIKE,
    "reward.model.device": ALIKE, "reward.model.batch": ALIKE, "reward.model.threads": ALIKE,
    "learner.sharded": ALIKE, "rollout.threads": ALIKE, "rollout.engines": ALIKE, "rollout.diffusion.batch": ALIKE,
    "rollout.vllm.max_sequences": ALIKE, "rollout.vllm.images": ALIKE, "rollout.vllm.tensor_parallel": ALIKE,
}  # fmt: skip
"""The first phase that a setting affects, or every setting of a section but those named besides; it affects all later
phases, too."""

CHOSEN_GROUPS = (
    "algorithm.filter.enabled", "algorithm.filter.key", "algorithm.filter.low", "algorithm.filter.high",
    "algorithm.filter.max_tries", "algorithm.overlong.mask_truncated",
    "algorithm.overlong.include_truncated_in_baseline",
)  # fmt: skip
OF_STEPS = {
    "rollout.max_staleness", "data.order",
    "rollout.second_turn.enabled", "rollout.second_turn.children", "rollout.second_turn.shuffled",
}  # fmt: skip
"""Settings of sampling that do not affect the bootstrap and its evaluation: held-out problems get one real second turn
however a run is trained."""


OPTIONAL_SECTIONS = ("data.curriculum", "environment", "model.lora", "reward.code.verpo")


def first_use(name: str) -> str:
    """The first phase that a setting affects."""
    while name not in FIRST_USE:
        name = name.rpartition(".")[0]
    return FIRST_USE[name]


def earlier_uses(before: Config, after: Config) -> dict[str, dict[str, bool]]:
    """By part, the settings that affect it before their phase in FIRST_USE, depending on others.

    True: if they change so, what a fork shares was computed differently, or lacks something. From estimator=grpo to
    gae, {"experience": {"algorithm.advantage.estimator": True, …}, …}: what the learner measured lacks values.
    """
    had, has = before.algorithm, after.algorithm
    lacks_values = has.advantage.needs_values and not had.advantage.needs_values
    only_starts_there = has.kl.kind == "adaptive" or (has.kl.kind == "token_adaptive" and has.kl.mode == "compound")
    moving = [each.kl.reference_sync is not None and each.kl.placement != "none" for each in (had, has)]
    other_reference = has.kl.placement != "none" and moving[0] != moving[1]
    return {
        BOOTSTRAP: {"algorithm.kl.coef": only_starts_there},
        WEIGHTS: {
            "model.lora": True,
            "model.train_vision": after.model.lora is not None,
            "learner.optimizer": True,
            "learner.ema": before.learner.ema is None,
            "algorithm.advantage.estimator": lacks_values,
            "algorithm.kl.reference_sync": other_reference,
            "algorithm.kl.placement": other_reference,
        },
        "rollout": {"algorithm.advantage.estimator": had.advantage.needs_greedy != has.advantage.needs_greedy},
        "experience": {
            "algorithm.advantage.estimator": lacks_values,
            "algorithm.kl.placement": had.kl.placement == "none",
            "algorithm.kl.penalty": has.kl.penalty == "full",
            "algorithm.policy.epochs": after.model.family == "masked_diffusion",  # masks of each epoch
            **dict.fromkeys(CHOSEN_GROUPS, not (before.measures_all and after.measures_all)),
        },
    }


def bootstrap_settings(config: Config) -> dict[str, Any]:
    """The settings that the bootstrap's responses, grades and log-probs depend on, and a few more.

    Left out are those that affect only shaping and updates, or what later steps sample. Engines are given the longest
    sequence.
    """
    earlier = earlier_uses(config, config)
    named = {name for part in ("rollout", "experience", WEIGHTS) for name in earlier[part]} - set(CHOSEN_GROUPS)
    settings = {
        name: value
        for name, value in result_settings(config).items()
        if (whole := _whole(name)) not in OF_STEPS
        and (
            whole in named
            or first_use(whole) not in ("shape", UPDATE)
            or whole.startswith(("model.", "data.", "validation."))
        )
    }
    return settings | {"longest_sequence": config.longest_sequence}


def check_fork(before: Config, after: Config, files: dict[str, str], at: int, phase: str | None) -> None:
    """Raise ConfigError, naming them, if a fork changes settings that something it shares was computed with.

    files: those whose content has changed, and the settings that name them. at, phase: as in `fork`.
    """
    conflicts = find_conflicts(before, after, set(files.values()), at, phase)
    if not conflicts:
        return
    told = [f"{name}: {_shown(before, name)} → {_shown(after, name)} ({part})" for name, part in conflicts.items()]
    remedy = "Share less (--at, --phase), or begin a run of its own: ares train"
    raise ConfigError("The fork would share what was computed with other settings:\n  " + "\n  ".join([*told, remedy]))


def find_conflicts(before: Config, after: Config, files: set[str], at: int, phase: str | None) -> dict[str, str]:
    """Settings that differ and that a shared part was computed with, and the first such part."""
    earlier = earlier_uses(before, after)
    conflicts: dict[str, str] = {}
    weights = (WEIGHTS,) if at > (phase is not None) else ()  # after step 0 they are those it was started with
    for part in (BOOTSTRAP, *weights, *(PHASES[: PHASES.index(phase) + 1] if phase else ())):
        for name in sorted(changed_settings(before, after) | files):
            if first_use(name) == part or earlier.get(part, {}).get(name):
                conflicts.setdefault(name, part)
    return conflicts


def changed_settings(before: Config, after: Config) -> set[str]:
    """Result-changing settings that differ; an optional section counts as one."""
    old, new = result_settings(before), result_settings(after)
    names = {name for name in old | new if old.get(name) != new.get(name)}
    return {_whole(name) for name in names}


def _whole(name: str) -> str:
    """The optional section that holds a setting; any other setting itself."""
    return next((whole for whole in OPTIONAL_SECTIONS if name.startswith(f"{whole}.")), name)


def _shown(config: Config, name: str) -> str:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return repr(value.model_dump(mode="json") if isinstance(value, BaseModel) else value)
