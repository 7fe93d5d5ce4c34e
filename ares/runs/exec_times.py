"""CPU seconds of judged programs, in files beside the scores because they differ between executions.

No hash covers them and no result names them; losing one loses only the metrics computed from it.
"""

import logging

import pandas as pd
from pyarrow import ArrowException

from ares.store import RunStore

logger = logging.getLogger(__name__)
COLUMNS = ["slot", "sample", "exec_time"]


def exec_times_name(purpose: str, shard: int | None = None) -> str:
    """Name of a shard's file; without `shard`, a pattern for all of them."""
    return f"exec-time-{purpose}-{'*' if shard is None else f'{shard:04d}'}.parquet"


def read_exec_times(store: RunStore, path: str) -> pd.DataFrame | None:
    """slot, sample, exec_time of a shard; None, with a warning, if the file is missing or damaged."""
    try:
        return pd.read_parquet(store.here(path), columns=COLUMNS)
    except (OSError, ValueError, KeyError, ArrowException) as error:
        logger.warning("%s: cannot be read, CPU seconds are left out: %s", store.directory / path, error)
        return None
