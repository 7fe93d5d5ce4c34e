"""What can be set: every setting of a run with its type, bound and reason, and the profiles that set them.

Covered: strict models (run, algorithm, reward), YAML profiles with `extends`, dotted overrides, the fingerprint of what
changes results. Not covered: what a setting does; the package that does it says so.
"""

from algorithms.settings import FilterSettings, PerBucket, Strict
from ares.config.algorithm import KLConfig
from ares.config.data import DataConfig, Source
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
from ares.config.paths import absent_model, is_there, location, matches
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
    result_settings,
)
from ares.config.reward import CodeConfig, Needs, part_name
from ares.config.rollout import DiffusionConfig, RolloutConfig, SecondTurnConfig, VllmConfig
from ares.config.run import Config, LearnerConfig, ModelConfig, RewardConfig, TrackingConfig, WatchConfig
from ares.config.strict import ConfigError, explain, nearest, reason
from ares.config.yaml_files import read_yaml

__all__ = [
    "ENGINES", "ESTIMATORS", "GRADERS", "KL_CONTROLLERS", "POLICY_LOSSES", "PROFILES", "REWARD_DESIGNS",
    "TEMPLATE_LENGTH", "TRACKERS", "CodeConfig", "Config", "ConfigError", "DataConfig", "DiffusionConfig",
    "EnvironmentConfig", "FilterSettings", "KLConfig", "LearnerConfig", "ModelConfig", "Needs", "Override", "PerBucket",
    "RewardConfig", "RolloutConfig", "SecondTurnConfig", "Section", "Source", "Strict", "TrackingConfig", "VllmConfig",
    "WatchConfig", "absent_model", "changes_only_rounding", "commented", "defaults", "differences", "explain",
    "extension_files", "fingerprint", "from_dict", "is_there", "load", "load_reference", "location", "matches",
    "nearest", "override", "part_name", "profile_names", "read_yaml", "reason", "result_settings", "sections",
]  # fmt: skip
