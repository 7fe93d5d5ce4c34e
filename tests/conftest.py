"""What every test shares: no telemetry, no hub, one thread, and no trace in the user's own Prefect, MLflow or runs."""

import os
import tempfile

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"
_home = tempfile.mkdtemp(prefix="ares-tests-")
os.environ["PREFECT_HOME"] = os.path.join(_home, "prefect")
os.environ["ARES_RUNS"] = os.path.join(_home, "runs")
for _name in ("PREFECT_API_URL", "MLFLOW_TRACKING_URI", "RAY_ADDRESS"):
    os.environ.pop(_name, None)

import flows.environment  # noqa: E402, F401
