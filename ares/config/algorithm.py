"""The section `algorithm`: the settings of the mathematics, and what is known of the extensions that they name."""

from algorithms.settings import (
    AdvantageSettings,
    AepoSettings,
    DifficultySettings,
    EntropyBonusSettings,
    EntropySettings,
    FilterSettings,
    KLSettings,
    OverlongSettings,
    PolicySettings,
    Strict,
)
from ares.config.extensions import ESTIMATORS


class AdvantageConfig(AdvantageSettings):
    """How rewards become advantages."""

    @property
    def needs_values(self) -> bool:
        """Whether a critic is trained."""
        return bool(ESTIMATORS.fact(self.estimator, "needs_values"))

    @property
    def needs_greedy(self) -> bool:
        """Whether a greedy answer is sampled with each group."""
        return bool(ESTIMATORS.fact(self.estimator, "needs_greedy"))

    @property
    def within_group(self) -> bool:
        """Whether the samples of a prompt are compared with each other, as second turns need it."""
        return bool(ESTIMATORS.fact(self.estimator, "within_group"))


class AlgorithmConfig(Strict):
    """What is learnt from a batch."""

    difficulty: DifficultySettings = DifficultySettings()
    entropy: EntropySettings = EntropySettings()
    entropy_bonus: EntropyBonusSettings = EntropyBonusSettings()
    aepo: AepoSettings = AepoSettings()
    overlong: OverlongSettings = OverlongSettings()
    filter: FilterSettings = FilterSettings()
    kl: KLSettings = KLSettings()
    advantage: AdvantageConfig = AdvantageConfig()
    policy: PolicySettings = PolicySettings()
