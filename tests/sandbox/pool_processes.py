"""Programs for the tests of pools, and the processes that these keep."""

from sandbox import Program, SandboxPool
from sandbox.pool import Worker
from sandbox.worker_process import WorkerProcess
from tests.sandbox.sandbox_configurations import descendants

GOOD = Program(source="def f(x): return x + 1", tests=["assert f(1) == 2"])
SLOW = Program(source="import time\ndef f(x):\n time.sleep(0.3)\n return x + 1", tests=["assert f(1) == 2"])


def workers_of(pool: SandboxPool) -> list[Worker]:
    return [worker for worker in (*pool._busy, *pool._free) if worker is not None]


def processes_of(pool: SandboxPool) -> set[int]:
    """The workers' processes, with all below them."""
    workers = [worker for worker in workers_of(pool) if isinstance(worker, WorkerProcess)]
    return {pid for worker in workers for pid in (worker.pid, *descendants(worker.pid))}
