"""Learner and engine as Ray actors, on this machine or on a cluster: their placement, and their restart after a death.

Not covered: what they compute (ares/workers: services).
"""

import os

LOCAL = {
    # Whoever reaches a port of Ray can run code: its node takes the loopback address, as it does on macOS by default.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # By default it blocks all threads of this process until it has started a worker per CPU.
    "RAY_prestart_worker_first_driver": "0",
    # By default actors run at niceness 15, behind everything else on the machine, judged programs included.
    "RAY_worker_niceness": "0",
    # Ray puts the working directory first on its workers' path, where a user's rewards.py would hide our package.
    "RAY_preload_python_modules": "ares,algorithms,rewards,sandbox",
}
"""Settings of a local Ray, which reads them when it is imported."""
if not os.environ.get("RAY_ADDRESS"):
    os.environ |= {name: value for name, value in LOCAL.items() if name not in os.environ}

from ares.cluster.cluster import ATTEMPTS, Cluster  # noqa: E402
from ares.cluster.connection import check_cluster, connect  # noqa: E402
from ares.cluster.failures import DEATHS, WorkerError  # noqa: E402
