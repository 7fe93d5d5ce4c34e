"""KL controllers as the settings name them: the run state keeps them, the learner runs the one inside its loss."""

from algorithms.kl_controllers import KLController, fixed_kl
from ares.config import KL_CONTROLLERS, KlConfig, PerBucket


def kl_controller(kl: KlConfig) -> KLController:
    """The controller that sees whole batches. Where one works inside the loss, the coefficient itself stays."""
    return fixed_kl(kl) if kl.in_loss else _made(kl)


def loss_controller(kl: KlConfig) -> KLController | None:
    """The controller that the learner runs inside the loss, once an optimiser step; its coefficients multiply."""
    return _made(kl) if kl.in_loss else None


def plain(value: float | PerBucket) -> float | dict[str, float]:
    """A setting that may have a value for each bucket, with the buckets' names as text."""
    return {str(bucket): number for bucket, number in value.items()} if isinstance(value, dict) else value


def _made(kl: KlConfig) -> KLController:
    made: KLController = KL_CONTROLLERS.made(kl)
    return made
