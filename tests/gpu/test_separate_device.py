"""What a GPU would refuse is seen without one: the tests of this folder on a device that keeps tensors to itself."""

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
    """In a process of its own, which has computed no gradient yet: torch counts its devices once, and keeps them."""
    code = ON_IT.format(files=["tests/gpu/on_separate_device.py", "tests/gpu/test_device.py"])
    ended = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "skipped" not in ended.stdout, ended.stdout
