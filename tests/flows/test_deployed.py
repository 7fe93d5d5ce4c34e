"""What a worker keeps in memory of a run whose process has died: it loads the flow to look for its hooks."""

import subprocess
import sys
from typing import Any

import pytest
import yaml

from tests.shared_run import REPOSITORY

LOADED = """
import sys
from prefect.flows import load_flow_from_entrypoint

flow = load_flow_from_entrypoint(sys.argv[1])
print(flow.name, *sorted({"torch", "transformers", "ray", "mlflow"} & set(sys.modules)))
"""


DEPLOYMENTS = yaml.safe_load((REPOSITORY / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=[each["name"] for each in DEPLOYMENTS])
def test_a_worker_that_looks_for_hooks_loads_no_library_of_training(deployment: dict[str, Any]) -> None:
    command = [sys.executable, "-c", LOADED, deployment["entrypoint"]]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == [deployment["name"]]
