import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from ares.learner.learner import Learner
from ares.reports.samples import sample_report, samples_table
from ares.runs.run import Run
from ares.step.collate import readable_rows
from ares.step.shape import shape
from ares.step.state import RunState
from ares.store import run_status
from ares.store.store import Commit, StoreError
from tests.ares.builders import config, experienced, rows
from tests.ares.store_builders import chain, commit

ACCURACIES: list[list[float | None]] = [[1, 1, 1, 0], [1, 0, None, 0]]
SETTINGS = ("train.steps=2", "algorithm.overlong.soft_punish_cache=4")


@pytest.fixture(scope="module")
def step_of_a_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Commit]:
    """A run on disk with bootstrap and one step, made of one shaped batch; no actor was started."""
    run = Run.open(config(*SETTINGS), "short", tmp_path_factory.mktemp("runs"))
    (first,) = chain(run.store, 1, lambda step: {"state": run.state.state_dict()})
    step = run.step(1)
    table = rows(ACCURACIES, prompt="a question", response=[f"answer {i}" for i in range(8)])
    batch, after = experienced(Learner(run.config), table), RunState.initial(run.config, len(run.train_set))
    metrics = shape(batch, after, run.config)
    artifacts = {
        "samples": run.store.write_rows(step.path("samples.parquet"), readable_rows(batch)),
        "batch": run.store.write_file(step.path("batch.safetensors"), batch.save),
    }
    state = after.state_dict() | {"evaluations": [{"step": 1, "accuracy": 0.5, "mean_length": 6.0}]}
    last = commit(1, first, artifacts=artifacts, state=state, metrics=metrics)
    run.store.write_commit(last)
    return run, last


@pytest.fixture(autouse=True)
def runs_directory(step_of_a_run: tuple[Run, Commit], monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = step_of_a_run[0].store.directory.parent
    monkeypatch.setenv("ARES_RUNS", str(directory))
    return directory


def test_a_stopped_run_tells_its_last_commit(step_of_a_run: tuple[Run, Commit]) -> None:
    _, last = step_of_a_run
    status = run_status("short")
    assert (status["run"], status["state"], status["step"], status["steps"]) == ("short", "stopped", 1, 2)
    assert status["evaluations"] == [{"step": 1, "accuracy": 0.5, "mean_length": 6.0}]
    assert status["buckets"]["easy"]["acc"] == 0.75
    assert status["buckets"]["easy"]["alpha"] == last.metrics["bucket/easy/alpha"]
    assert "acc" not in status["buckets"]["hard"]


def test_a_run_that_is_held_is_running(step_of_a_run: tuple[Run, Commit]) -> None:
    run, _ = step_of_a_run
    with run.store.lock():
        assert run_status("short")["state"] == "running"
    assert run_status("short")["state"] == "stopped"


def test_a_run_before_its_first_commit_is_new_and_after_its_last_step_finished(runs_directory: Path) -> None:
    fresh = Run.open(config(*SETTINGS), "fresh", runs_directory)
    assert run_status("fresh") | {"buckets": None} == {
        "run": "fresh", "state": "new", "step": 0, "steps": 2, "tokens": 0, "evaluations": [], "buckets": None,
    }  # fmt: skip
    chain(fresh.store, 3, lambda step: {"state": fresh.state.state_dict()})
    assert run_status("fresh")["state"] == "finished"


def test_looking_writes_nothing(runs_directory: Path) -> None:
    def listing() -> dict[str, tuple[int, int]]:
        return {str(p): (p.stat().st_mtime_ns, p.stat().st_size) for p in runs_directory.rglob("*") if p.is_file()}

    before = listing()
    run_status("short")
    samples_table("short", 1)
    sample_report("short", 1, "p0", 0)
    assert listing() == before


def test_the_table_has_a_line_for_every_sample_with_the_parts_of_its_reward() -> None:
    console = Console(width=250, file=io.StringIO())
    with console.capture() as printed:
        console.print(samples_table("short", 1))
    shown = printed.get()
    assert "short, step 1: 8 samples" in shown
    assert sum(line.count("p0") + line.count("p1") for line in shown.splitlines()) == 8
    for column in ("acc", "entropy", "overlong", "reward", "bucket"):
        assert column in shown


def test_a_report_explains_the_reward_by_its_parts(step_of_a_run: tuple[Run, Commit]) -> None:
    run, last = step_of_a_run
    table = run.store.read_rows(last.artifacts["samples"])
    row = table[(table["id"] == "p0") & (table["sample"] == 3)].iloc[0]
    shown = sample_report("short", 1, "p0", 3)
    assert "answer 3" in shown
    parts = [row["accuracy"], row["reward_entropy_score"], row["reward_overlong"]]
    assert shown.splitlines()[-1] == (
        "reward {:+.4f} = accuracy {:+.4f} + reward_entropy_score {:+.4f} + reward_overlong {:+.4f}".format(
            row["reward"], *parts
        )
    )
    assert row["reward"] == pytest.approx(sum(parts))


def test_a_report_of_an_unscored_sample_shows_no_reward() -> None:
    shown = sample_report("short", 1, "p1", 2)
    assert "answer 6" in shown
    assert "no reward" in shown.splitlines()[-1]


def test_what_is_missing_is_an_error_that_names_it() -> None:
    for call, said in (
        (lambda: run_status("absent"), "no run 'absent'"),
        (lambda: samples_table("absent", 1), "no run 'absent'"),
        (lambda: samples_table("short", 9), "no committed step 9"),
        (lambda: sample_report("short", 1, "p7", 0), "no sample 0 of problem 'p7' in step 1"),
    ):
        with pytest.raises(StoreError, match=said):
            call()


def test_where_a_run_stands_is_said_without_loading_torch() -> None:
    """Which takes seconds; `ares status` is asked often."""
    check = "import sys, ares.store; print(sorted({'torch', 'transformers', 'datasets'} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
