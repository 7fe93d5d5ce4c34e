"""A run's processes import nothing they do not need, and a user can import what was hidden."""

import subprocess
import sys

from tests.fork_server import modules_of_a_run

UNUSED = {"sklearn", "scipy", "mlflow", "peft", "matplotlib.pyplot", "vllm",
          "torch.distributed.checkpoint", "flows.parameters"}  # fmt: skip


def test_a_process_loads_nothing_that_only_other_runs_need() -> None:
    """Each takes a tenth of the time to the first step, or more. The actors load part of what flows.train loads."""
    loaded = modules_of_a_run()
    assert {"transformers.generation.utils", "ares.workers.actors"} <= loaded
    assert loaded & UNUSED == set()


def test_what_is_hidden_from_transformers_is_there_for_others() -> None:
    call = "import importlib.util, ares.lighter_transformers; "
    call += "assert all(map(importlib.util.find_spec, ('sklearn', 'scipy')))"
    subprocess.run([sys.executable, "-c", call], check=True)
