"""Ray actors for learner and engines: their placement, and their restart after a death.

Not covered: what they compute (ares/learner, ares/engines).
"""

from ares.workers.cluster import ATTEMPTS, Cluster
from ares.workers.connection import check_cluster, connect
from ares.workers.failures import DEATHS, WorkerError
from ares.workers.placement import check_engine, check_gpus, demand, runs_that_fit, uses_gpus
from ares.workers.replay import check_weights, first_unreplayable, newest_checkpoint

__all__ = [
    "ATTEMPTS",
    "DEATHS",
    "Cluster",
    "WorkerError",
    "check_cluster",
    "check_engine",
    "check_gpus",
    "check_weights",
    "connect",
    "demand",
    "first_unreplayable",
    "newest_checkpoint",
    "runs_that_fit",
    "uses_gpus",
]
