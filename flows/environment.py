"""Environment defaults for Prefect, Ray, MLflow and transformers, and a quick exit. Import it before any of them."""

import atexit
import gc
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
    # Written one by one, task-run records lock Prefect's SQLite while a step's flow run is being created; the client
    # then sleeps two seconds before it tries again. In batches they do not meet. The interval is cut to whole seconds
    # where it is used: below 1 the server would spin.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    # A run that died with its worker is marked crashed when its heartbeats stop; 30 s is the shortest Prefect has.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
    # Events would be three quarters of Prefect's database. States of runs and automations do not need them kept.
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    # Deletes, every hour, flow runs with their tasks, logs and artifacts that are older than thirty days.
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 24 * 3600),
    "PREFECT_LOGGING_LEVEL": "WARNING",
    # Its logs go where all logs go (flows/cli/logs.py).
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "TOKENIZERS_PARALLELISM": "false",
    # Learner and engine free and take the same large tensors again and again. By default each goes back to the kernel
    # and comes as new pages of 4 kB: a tenth of a learner's time on a CPU, or more (docs/measurements/speed.md).
    # Huge pages (hugetlb=1) would gain a little more, and cost every process that starts half a second.
    "GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=4294967296:glibc.malloc.trim_threshold=17179869184",
}
for _name, _value in DEFAULTS.items():
    os.environ.setdefault(_name, _value)


def end_quickly() -> None:
    """Leave the objects of torch, Ray and MLflow to the kernel.

    Python's last garbage collection would take up to twenty seconds on a busy machine, in which a completed run still
    holds its place. stderr is closed, since libraries complain there about objects that were not released.
    """
    gc.freeze()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


atexit.register(end_quickly)  # registered first, called last
