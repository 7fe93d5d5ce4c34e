"""What a run's processes load: nothing that they never call, and what is a user's is there."""

import subprocess
import sys

import pytest

UNUSED = {"sklearn", "scipy", "mlflow", "peft", "matplotlib.pyplot", "vllm",
          "torch.distributed.checkpoint"}  # fmt: skip


@pytest.mark.parametrize("module", ["flows.train", "ares.workers.actors"])
def test_a_process_loads_nothing_that_only_other_runs_need(module: str) -> None:
    """Each of them is a tenth of the time to the first step, or more, in each of three processes."""
    call = f"import sys, {module}; print(*sys.modules); import sklearn, scipy.optimize"
    loaded = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True).stdout.split()
    assert "transformers.generation.utils" in loaded
    assert set(loaded) & UNUSED == set()
