"""What a worker keeps in memory of a run whose process has died: it loads the flow to look for its hooks."""

import subprocess
import sys

import pytest
import yaml

from tests.shared_run import REPOSITORY

LOADED = """
import sys
from prefect.flows import load_flow_from_entrypoint

flow = load_flow_from_entrypoint(sys.argv[1])
print(flow.name, *sorted({"torch", "transformers", "ray", "mlflow"} & set(sys.modules)))
"""


@pytest.mark.parametrize("name", ["ares-train", "ares-bootstrap"])
def test_a_worker_that_looks_for_hooks_loads_no_library_of_training(name: str) -> None:
    deployments = yaml.safe_load((REPOSITORY / "prefect.yaml").read_text())["deployments"]
    (entrypoint,) = [each["entrypoint"] for each in deployments if each["name"] == name]
    command = [sys.executable, "-c", LOADED, entrypoint]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [name]
