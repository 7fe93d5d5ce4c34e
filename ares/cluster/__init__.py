"""Learner and engine as Ray actors, on this machine or on a cluster: their placement, and their restart after a death.

Not covered: what they compute (ares/workers: services).
"""

from ares.cluster.cluster import ATTEMPTS, Cluster
from ares.cluster.connection import check_cluster, connect
from ares.cluster.failures import DEATHS, WorkerError

__all__ = ["ATTEMPTS", "DEATHS", "Cluster", "WorkerError", "check_cluster", "connect"]
