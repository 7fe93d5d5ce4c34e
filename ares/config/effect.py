"""Which settings another setting switches off: given on a command line, they are warned about.

Covered: built-in engines, estimators, controllers and designs. Not covered: what a file of the user's reads, profiles
(which set much that an override switches off), contradictions, which ares/config/run.py refuses.
"""

import json
from collections.abc import Callable, Iterable
from functools import reduce

from ares.config.extensions import ENGINES, ESTIMATORS, KL_CONTROLLERS, POLICY_LOSSES, REWARD_DESIGNS, Kind
from ares.config.profiles import Override, plain
from ares.config.run import Config

Switch = tuple[str, Callable[[Config], bool], tuple[str, ...]]


def _other_than(kind: Kind, *names: str) -> set[str]:
    return set(kind.builtin) - set(names)


SWITCHES: tuple[Switch, ...] = (
    ("model.family", lambda c: c.model.family != "masked_diffusion", ("model.mask_estimate",)),
    ("model.family", lambda c: c.model.family != "vision_language",
     ("data.min_pixels", "data.max_pixels", "data.video_fps")),
    ("data.validation", lambda c: c.data.validation is None, ("validation.", "data.validation_split")),
    ("rollout.engine", lambda c: c.rollout.engine in _other_than(ENGINES, "vllm"), ("rollout.vllm.",)),
    ("rollout.engine", lambda c: c.rollout.engine in _other_than(ENGINES, "diffusion"), ("rollout.diffusion.",)),
    ("rollout.second_turn.enabled", lambda c: not c.rollout.second_turn.enabled,
     ("rollout.second_turn.children", "rollout.second_turn.credit", "rollout.second_turn.shuffled")),
    ("reward.kind", lambda c: c.reward.kind == "math" or c.reward.adds_functions, ("reward.code.",)),
    ("reward.kind", lambda c: c.reward.kind == "code", ("reward.timeout",)),
    ("reward.code.design", lambda c: c.reward.code.design in _other_than(REWARD_DESIGNS, "dense_weighted"),
     ("reward.code.test_",)),
    ("reward.code.efficiency", lambda c: not c.reward.code.efficiency, ("reward.code.efficiency_start",)),
    ("algorithm.aepo.enabled", lambda c: not c.algorithm.aepo.enabled,
     ("algorithm.aepo.", "algorithm.difficulty.alpha_", "algorithm.difficulty.target_")),
    ("algorithm.overlong.mask_truncated", lambda c: not c.algorithm.overlong.mask_truncated,
     ("algorithm.overlong.include_truncated_in_baseline",)),
    ("algorithm.overlong.soft_punish_cache", lambda c: not c.algorithm.overlong.soft_punish_cache,
     ("algorithm.overlong.soft_punish_weight",)),
    ("algorithm.filter.enabled", lambda c: not c.algorithm.filter.enabled,
     ("algorithm.filter.key", "algorithm.filter.low", "algorithm.filter.high")),
    ("algorithm.filter.key", lambda c: c.algorithm.filter.key == "reward",
     ("algorithm.filter.low", "algorithm.filter.high")),
    ("algorithm.kl.placement", lambda c: c.algorithm.kl.placement == "none", ("algorithm.kl.",)),
    ("algorithm.kl.placement", lambda c: c.algorithm.kl.placement == "reward", ("algorithm.kl.relax_",)),
    ("algorithm.kl.kind", lambda c: c.algorithm.kl.kind == "fixed", ("algorithm.kl.target",)),
    ("algorithm.kl.kind", lambda c: c.algorithm.kl.kind in _other_than(KL_CONTROLLERS, "adaptive"),
     ("algorithm.kl.horizon",)),
    ("algorithm.kl.kind", lambda c: c.algorithm.kl.kind in _other_than(KL_CONTROLLERS, "token_adaptive"),
     ("algorithm.kl.mode",)),
    ("algorithm.kl.kind", lambda c: c.algorithm.kl.kind in _other_than(KL_CONTROLLERS, "bucket_beta"),
     ("algorithm.kl.beta_interval",)),
    ("algorithm.advantage.estimator", lambda c: c.algorithm.advantage.estimator in _other_than(ESTIMATORS, "grpo"),
     ("algorithm.advantage.norm_by_std",)),
    ("algorithm.advantage.estimator",
     lambda c: c.algorithm.advantage.estimator in _other_than(ESTIMATORS, "reinforce_plus_plus", "gae"),
     ("algorithm.advantage.gamma",)),
    ("algorithm.advantage.estimator", lambda c: c.algorithm.advantage.estimator in _other_than(ESTIMATORS, "gae"),
     ("algorithm.advantage.lam",)),
    ("algorithm.advantage.estimator", lambda c: not c.algorithm.advantage.needs_values, ("learner.critic_",)),
    ("algorithm.policy.loss", lambda c: POLICY_LOSSES.settings_model(c.algorithm.policy.loss) is not None,
     ("algorithm.policy.ratio", "algorithm.policy.clip_")),
)  # fmt: skip
"""A setting, whether its value switches others off, and how the names of those begin."""


def without_effect(config: Config, overrides: Iterable[Override]) -> dict[str, str]:
    """The overridden settings that do nothing under this configuration, each with the setting that is why."""
    names = [override.partition("=")[0] for override in overrides]
    return {
        name: f"{switch}={_text(config, switch)}"
        for switch, is_off, prefixes in reversed(SWITCHES)  # the first that is off is told
        for name in names
        if name != switch and name.startswith(prefixes) and is_off(config)
    }


def _text(config: Config, name: str) -> str:
    value = plain(reduce(getattr, name.split("."), config))
    return value if isinstance(value, str) else json.dumps(value)
