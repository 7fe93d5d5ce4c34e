"""Environment defaults for Prefect, Ray, MLflow and transformers. Import it before any of them."""

import atexit
import os

DEFAULTS = {
    # No telemetry unless the user asks for it.
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    # Commits are logged later if MLflow is away; its own retries would take four minutes a call.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    # A run that died with its worker is marked crashed when its heartbeats stop; 30 s is the shortest Prefect has.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # Events would be three quarters of Prefect's database. States of runs and automations do not need them kept.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    # Deletes, every hour, flow runs with their tasks, logs and artifacts that are older than thirty days.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 24 * 3600),
    "PREFECT_LOGGING_LEVEL": "WARNING",
    # What it could not tell a server that is lost; ours says so in a line.
    "PREFECT_INTERNAL_LOGGING_LEVEL": "CRITICAL",
    # Its logs go where all logs go (flows/cli/logs.py).
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "TOKENIZERS_PARALLELISM": "false",
    # Learner and engine free and take the same large tensors again and again. By default each goes back to the kernel
    # and comes as new pages of 4 kB: a tenth of a learner's time on a CPU, or more.
    # Huge pages (hugetlb=1) would gain a little more, and cost every process that starts half a second.
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184",
}
for _name, _value in DEFAULTS.items():
    os.environ.setdefault(_name, _value)

LOOPBACK = ("127.0.0.1", "localhost")
"""A run's own servers. A proxy of the user's does not reach them."""
for _name in ("no_proxy", "NO_PROXY"):
    _hosts = [host for host in os.environ.get(_name, "").split(",") if host]
    os.environ[_name] = ",".join([*_hosts, *(host for host in LOOPBACK if host not in _hosts)])


def close_stderr() -> None:
    """Triton would list every object that is not released when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


atexit.register(close_stderr)  # registered first, called last
