"""The pool inside a Ray actor, as the training loop uses it."""

from pathlib import Path

import pytest

from sandbox import Program, SandboxPool

REPOSITORY = Path(__file__).resolve().parents[2]


class Judge:
    """Owns a pool."""

    def __init__(self) -> None:
        self.pool = SandboxPool(num_workers=1)

    def judge(self, source: str) -> tuple[str, str]:
        (verdict,) = self.pool.run([Program(source=source, tests=["assert f(1) == 2"])])
        return verdict.error_type, verdict.isolation


@pytest.mark.slow
def test_a_pool_in_an_actor() -> None:
    ray = pytest.importorskip("ray")
    with SandboxPool(num_workers=1) as pool:
        isolation = pool.isolation
    environment = {"env_vars": {"PYTHONPATH": str(REPOSITORY)}}
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    try:
        actor = ray.remote(Judge).remote()
        assert ray.get(actor.judge.remote("def f(x): return x + 1"), timeout=60) == ("accepted", isolation)
        assert ray.get(actor.judge.remote("def f(x): return 0"), timeout=60) == ("wrong_answer", isolation)
    finally:
        ray.shutdown()
