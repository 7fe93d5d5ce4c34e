"""What a worker loads when a run's process has died: it imports the flow to look for its hooks."""

import subprocess
import sys

import pytest
import yaml

from tests.shared_run import REPOSITORY

LOADED = """
import sys
from prefect.flows import load_flow_from_entrypoint

for entrypoint in sys.argv[1:]:
    flow = load_flow_from_entrypoint(entrypoint)
    print(flow.name, *sorted({"torch", "transformers", "ray", "mlflow"} & set(sys.modules)))
"""


@pytest.mark.slow
def test_a_worker_that_looks_for_hooks_loads_no_library_of_training() -> None:
    deployments = yaml.safe_load((REPOSITORY / "prefect.yaml").read_text())["deployments"]
    assert len(deployments) == 5
    command = [sys.executable, "-c", LOADED, *(each["entrypoint"] for each in deployments)]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [each["name"] for each in deployments]
