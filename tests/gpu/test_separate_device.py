"""Runs this folder's tests on the separate device, which refuses what a GPU would refuse."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ON_IT = """
import sys
import pytest
from tests.gpu import separate_device
separate_device.register()
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", *{files!r}]))
"""


def test_learner_and_engine_keep_to_their_device() -> None:
    """In a process of its own: torch counts its devices once, before the first backward pass."""
    code = ON_IT.format(files=["tests/gpu/on_separate_device.py", "tests/gpu/test_device.py"])
    ended = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "skipped" not in ended.stdout, ended.stdout
