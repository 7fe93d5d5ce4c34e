"""The files of a run, each whole or absent, on this machine and at the URL that mirrors them.

Covered: artifacts with hashes, commits, locks, upload and download, what a run says of itself. Not covered: what an
artifact means (tasks/).
"""

from ares.store.commits import Commit, Fork, Ref
from ares.store.description import read_config, read_description, run_status
from ares.store.drawn import read_drawn, read_finished_memo, read_measured
from ares.store.errors import DamagedArtifact, StoreError
from ares.store.files import file_digest, files_in
from ares.store.locations import (
    RULE,
    checked_name,
    database_beside,
    database_of,
    is_name,
    mlflow_page,
    name_after,
    name_of_rewind,
    run_store,
    runs_directory,
    runs_in,
    tracking_uri,
)
from ares.store.lock import held, is_held
from ares.store.mirror import path_of
from ares.store.sealed_lines import MEMO_FILE, Journal, Kept, Memo
from ares.store.store import RunStore
