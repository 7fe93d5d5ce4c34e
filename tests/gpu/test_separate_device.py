"""Runs this folder's tests on the separate device, which refuses what a GPU would refuse."""

import os
import shlex
import subprocess
import sys

from tests import fork_server, forked_python

ON_IT = """
import sys
import pytest
from tests.gpu import separate_device
separate_device.register()
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/gpu/on_separate_device.py", "tests/gpu/test_device.py"]))
"""


def test_learner_and_engine_keep_to_their_device() -> None:
    """In a process of its own: torch counts its devices once, before the first backward pass."""
    python = shlex.split(fork_server.python()) if forked_python.FORK_SERVER in os.environ else [sys.executable]
    ended = subprocess.run(
        [*python, "-c", ON_IT], cwd=fork_server.REPOSITORY, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "skipped" not in ended.stdout, ended.stdout
