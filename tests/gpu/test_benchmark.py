"""benchmarks.gpu: rows for what is missing or fails, formulas, and a whole run on a CPU."""

import importlib
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.gpu.__main__ import MEASUREMENTS
from benchmarks.gpu.device import Place, Row
from benchmarks.gpu.runner import Measurement, Report, run
from benchmarks.gpu.shapes import SHAPES
from benchmarks.gpu.transfers import copies

REPOSITORY = Path(__file__).resolve().parents[2]
WITHOUT = """import importlib.machinery, sys
class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        absent = name.partition(".")[0] in ("prefect", "ray", "mlflow", "vllm")
        return None if absent else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder
"""


def measures(place: Place) -> Iterator[Row]:
    yield {"row": "one", "s": 1.0}


def lacks(place: Place) -> Iterator[Row]:
    yield {"row": "before", "s": 1.0}
    importlib.import_module("no_such_package")


def overflows(place: Place) -> Iterator[Row]:
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")
    yield {}


def dies(place: Place) -> Iterator[Row]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield {}


def hangs(place: Place) -> Iterator[Row]:
    time.sleep(1000)
    yield {}


def test_whatever_becomes_of_a_measurement_the_others_go_on(tmp_path: Path) -> None:
    limits = {lacks: 6.0, overflows: 6.0, dies: 6.0, hangs: 0.6, measures: 6.0}
    asked = [Measurement(each.__name__, each, limit) for each, limit in limits.items()]
    run(asked, Place("cpu", True, tmp_path), Report(tmp_path, "tried"), 600.0)
    rows = {(row["measurement"], row["row"]): row for row in json.loads((tmp_path / "gpu.json").read_text())["rows"]}
    notes = {name: row["note"] for (name, kind), row in rows.items() if kind == "not finished"}
    assert notes["lacks"] == "not installed: No module named 'no_such_package'"
    assert notes["overflows"].startswith("not enough memory: CUDA out of memory")
    assert notes["dies"].startswith("died of signal 9")
    assert notes["hangs"] == "stopped after 6 s"
    assert ("lacks", "before") in rows
    assert ("measures", "one") in rows
    assert "| one | s 1 |" in (tmp_path / "gpu.md").read_text()


def test_what_there_is_no_time_for_is_a_row(tmp_path: Path) -> None:
    report = Report(tmp_path, "tried")
    run([Measurement("late", measures, 6.0)], Place("cpu", True, tmp_path), report, 0.0)
    assert report.rows == [{"measurement": "late", "row": "not begun", "note": "the time is up"}]


def test_measurements_can_be_sent_to_a_fresh_process() -> None:
    """On a GPU they are started in one."""
    assert len(pickle.loads(pickle.dumps(MEASUREMENTS))) == len(MEASUREMENTS)


def test_shapes_have_the_published_numbers_of_parameters() -> None:
    assert SHAPES["0.5B"].parameters == 494_032_768
    assert SHAPES["1.5B"].parameters == 1_543_714_304


def test_every_copy_has_something_to_do(tmp_path: Path) -> None:
    """torch skips copying a tensor onto itself: the device's memory seemed infinitely fast."""
    for target, source in copies(Place("cpu", True, tmp_path), 64).values():
        assert target.data_ptr() != source.data_ptr()


@pytest.mark.slow
def test_all_of_it_runs_on_a_cpu_without_prefect_ray_mlflow_and_vllm(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{REPOSITORY}", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--tiny", "--seconds", "900",
               "--out", str(tmp_path / "out")]  # fmt: skip
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    rows = json.loads((tmp_path / "out" / "gpu.json").read_text())["rows"]
    assert {row["measurement"] for row in rows} == {each.name for each in MEASUREMENTS}
    assert [row for row in rows if "note" in row and row["note"] != "left out of --tiny"] == []
    ended = subprocess.run([*command, "--only", "vLLM", "kill and resume"], cwd=REPOSITORY, env=environment)
    rows = json.loads((tmp_path / "out" / "gpu.json").read_text())["rows"]
    assert [row["note"].partition(":")[0] for row in rows] == ["not installed"] * 2
