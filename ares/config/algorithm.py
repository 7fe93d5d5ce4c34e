"""The section `algorithm`: the settings of the mathematics, and what is known of the extensions that they name."""

from typing import TYPE_CHECKING

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
from ares.config.extensions import ESTIMATORS, KL_CONTROLLERS

if TYPE_CHECKING:
    from algorithms.kl_controllers import KLController


class KLConfig(KLSettings):
    """The KL penalty towards the reference policy."""

    @property
    def in_loss(self) -> bool:
        """Whether the controller works inside the loss, once an optimiser step, instead of once a batch."""
        return bool(KL_CONTROLLERS.fact(self.kind, "in_loss"))

    def make_controller(self) -> "KLController":
        """The controller that sees whole batches; fixed if the configured one works inside the loss."""
        return KL_CONTROLLERS.implementation("fixed")(self) if self.in_loss else KL_CONTROLLERS.make(self)

    def make_loss_controller(self) -> "KLController | None":
        """The controller that the learner updates every optimiser step; its coefficients multiply the fixed one's."""
        return KL_CONTROLLERS.make(self) if self.in_loss else None


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
    kl: KLConfig = KLConfig()
    advantage: AdvantageConfig = AdvantageConfig()
    policy: PolicySettings = PolicySettings()
