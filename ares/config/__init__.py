"""What can be set: every setting of a run with its type, bound and reason, and the profiles that set them.

Covered: strict models (run, algorithm, reward), YAML profiles with `extends`, dotted overrides, the fingerprint of what
changes results. Not covered: what a setting does; the package that does it says so.
"""

from algorithms.settings import Strict
from ares.config.algorithm import AlgorithmConfig
from ares.config.data import DataConfig, Order, Source
from ares.config.environment import TEMPLATE_LENGTH, EnvironmentConfig
from ares.config.extensions import (
    ENGINES,
    ESTIMATORS,
    GRADERS,
    KL_CONTROLLERS,
    POLICY_LOSSES,
    REWARD_DESIGNS,
    TRACKERS,
    extension_files,
    load_reference,
)
from ares.config.listing import Section, commented, sections
from ares.config.paths import absent_model, location, matches, seen_from
from ares.config.profiles import (
    PROFILES,
    Override,
    changes_only_rounding,
    defaults,
    differences,
    fingerprint,
    from_dict,
    load,
    override,
    profile_names,
    read_yaml,
    result_settings,
)
from ares.config.reward import CodeConfig, JudgeConfig, Need, Needs, RewardModelConfig, part_name
from ares.config.rollout import DiffusionConfig, RolloutConfig, SecondTurnConfig, VllmConfig
from ares.config.rules import VLLM_TEMPERATURES
from ares.config.run import Config, LearnerConfig, ModelConfig, RewardConfig, TrackingConfig, WatchConfig
from ares.config.strict import ConfigError, explain, nearest, reason
