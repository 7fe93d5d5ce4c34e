"""KL controllers made from settings: the run state holds those of whole batches, the learner one inside its loss."""

from algorithms.kl_controllers import KLController, fixed_kl
from ares.config import KL_CONTROLLERS, KLConfig


def kl_controller(kl: KLConfig) -> KLController:
    """The controller that sees whole batches; fixed if the configured one works inside the loss."""
    return fixed_kl(kl) if kl.in_loss else _made(kl)


def loss_controller(kl: KLConfig) -> KLController | None:
    """The controller that the learner updates every optimiser step; its coefficients multiply the fixed one's."""
    return _made(kl) if kl.in_loss else None


def _made(kl: KLConfig) -> KLController:
    made: KLController = KL_CONTROLLERS.make(kl)
    return made
