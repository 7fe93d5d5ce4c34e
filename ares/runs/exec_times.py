"""CPU seconds of judged programs, in files beside the scores: they differ from one execution to the next.

So no hash and no result names them, and losing one costs the metrics that are computed from it and nothing else.
"""

import logging

import pandas as pd
from pyarrow import ArrowException

from ares.store import RunStore

logger = logging.getLogger(__name__)
COLUMNS = ["slot", "sample", "exec_time"]


def exec_times_name(purpose: str, shard: int | None = None) -> str:
    """Name of a shard's file; without `shard`, a pattern of them all."""
    return f"exec-time-{purpose}-{'*' if shard is None else f'{shard:04d}'}.parquet"


def read_exec_times(store: RunStore, path: str) -> pd.DataFrame | None:
    """slot, sample, exec_time of a shard; None, with a warning, when the file is gone or damaged."""
    try:
        return pd.read_parquet(store.here(path), columns=COLUMNS)
    except (OSError, ValueError, KeyError, ArrowException) as error:
        logger.warning("%s: the seconds of its programs are left out: %s", store.directory / path, error)
        return None
