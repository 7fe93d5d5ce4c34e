"""What a run's processes load: nothing that they never call, and what is a user's is there."""

import subprocess
import sys

UNUSED = {"sklearn", "scipy", "mlflow", "peft", "matplotlib.pyplot", "vllm",
          "torch.distributed.checkpoint"}  # fmt: skip


def test_a_process_loads_nothing_that_only_other_runs_need() -> None:
    """Each is a tenth of the time to the first step, or more. The actors load a part of what flows.train loads."""
    call = "import sys, importlib.util, flows.train; print(*sys.modules); assert all(map(importlib.util.find_spec, "
    call += "('sklearn', 'scipy')))"
    loaded = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True).stdout.split()
    assert {"transformers.generation.utils", "ares.workers.actors"} <= set(loaded)
    assert set(loaded) & UNUSED == set()
