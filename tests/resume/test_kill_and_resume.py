"""A killed run ends bit-identical to the run with Prefect, Ray and MLflow, whether it is resumed with them or without.

Without: `ares train --plain` in processes that find neither these packages nor vLLM.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.shared_run import REPOSITORY, SMALL, as_a_user
from tests.short_runs import assert_same, assert_same_commits, is_logged, train

ABSENT = ("prefect", "ray", "mlflow", "vllm")
KILLED_AND_RESUMED = """
import os, runpy, shutil, sys
import flows.start  # loaded once, for both
first = os.fork()
if first:
    assert os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]) == -9
    shutil.copytree("killed", "resumed")
    sys.argv = ["ares", "resume", "resumed", "--plain"]
else:
    os.environ["KILL_AT"] = "2:update:inside"
    sys.argv = ["ares", "train", "tiny-math", *{settings}, "--run", "killed", "--plain"]
os.chdir({repository!r})
runpy.run_module("tests.killed_cli", run_name="__main__")
"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of runs that were trained without them: `killed` in an update, and `resumed` afterwards."""
    runs = tmp_path_factory.mktemp("plain")
    for name in ABSENT:
        (runs / "absent" / name).mkdir(parents=True)
        (runs / "absent" / name / "__init__.py").write_text(f"raise ModuleNotFoundError('No module named {name!r}')")
    path = os.pathsep.join([str(runs / "absent"), str(REPOSITORY)])
    program = KILLED_AND_RESUMED.format(settings=SMALL, repository=str(REPOSITORY))
    environment = os.environ | as_a_user(runs) | {"PYTHONPATH": path}
    ended = subprocess.run(
        [sys.executable, "-c", program], cwd=runs, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return runs


def damage_two_files(run: Path) -> None:
    batch, kept = (run / "steps/000002" / file for file in ("batch.safetensors", "phases.jsonl"))
    content = bytearray(batch.read_bytes())
    content[-1] ^= 1
    batch.write_bytes(content)
    *lines, last = kept.read_bytes().splitlines(keepends=True)
    kept.write_bytes(b"".join([*lines, last[: len(last) // 2]]))  # as a disk that lost power leaves it


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_killed_in_an_update_and_damaged_it_ends_bit_identical(runs: Path, plain: Path, whole: bool) -> None:
    """Killed as a plain run, which is cheaper; or under all of them, too."""
    name = f"killed-{whole}"
    if whole:
        assert train(runs, name, kill_at="2:update:inside", whole=True) == -signal.SIGKILL
    else:
        shutil.copytree(plain / "killed", runs / name)
    damage_two_files(runs / name)
    assert train(runs, name, whole=True) == 0
    assert is_logged(runs, name)
    assert_same(runs, "uninterrupted", name)


def test_resumed_without_them_it_ends_in_the_same_bits(runs: Path, plain: Path) -> None:
    assert_same_commits(runs, "uninterrupted", "resumed", plain)
