"""KL controllers as the settings describe them: the run state keeps them, the learner runs the one inside its loss."""

from types import SimpleNamespace
from typing import Any

from algorithms.kl import BucketBeta, KLController, get_kl_controller
from ares.config import KlConfig, KlKind, PerBucket


def kl_controller(kl: KlConfig) -> KLController:
    """The controller of the run state."""
    # With kind=bucket_beta the coefficient itself stays, and β per bucket multiplies it in the loss.
    kind = KlKind.FIXED if kl.kind is KlKind.BUCKET_BETA else kl.kind
    settings: Any = SimpleNamespace(
        kl_type=kind.value, kl_coef=plain(kl.coef), kl_target=plain(kl.target), kl_horizon=kl.horizon, kl_mode=kl.mode
    )
    return get_kl_controller(settings)


def bucket_beta(kl: KlConfig) -> BucketBeta:
    """The β controller of the KL loss as configured (the learner runs it, the run state keeps it)."""
    return BucketBeta(target_kls=plain(kl.target), interval=kl.beta_interval)


def plain(value: float | PerBucket) -> float | dict[str, float]:
    """A setting that may have a value for each bucket, with the buckets' names as text."""
    return {str(bucket): number for bucket, number in value.items()} if isinstance(value, dict) else value
