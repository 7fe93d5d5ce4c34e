"""A run's processes import nothing they do not need."""

from tests.fork_server import modules_of_a_run

UNUSED = {"mlflow", "peft", "matplotlib.pyplot", "vllm", "torch.distributed.checkpoint", "flows.parameters"}


def test_a_process_loads_nothing_that_only_other_runs_need() -> None:
    """Each takes a tenth of the time to the first step, or more. The actors load part of what flows.train loads."""
    loaded = modules_of_a_run()
    assert {"transformers.generation.utils", "ares.workers.actors"} <= loaded
    assert loaded & UNUSED == set()
