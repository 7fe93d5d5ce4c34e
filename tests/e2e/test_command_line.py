"""What a run of `ares train` says, logs and loads."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from tests.ares.data.code_rows import written
from tests.in_process import run_in_this_process, train_here
from tests.shared_run import SMALL
from tests.short_runs import metric_history, samples

MODEL = Path("examples/tiny/checkpoints/math")


def test_libraries_say_nothing_on_the_terminal(runs: Path) -> None:
    assert (runs.parent / "uninterrupted.stderr").read_text() == ""
    lines = (runs.parent / "uninterrupted.stdout").read_text().splitlines()
    assert lines[-1] == "next: ares eval uninterrupted, or ares inspect uninterrupted --step 1"


def test_mlflow_holds_parameters_panels_and_samples(runs: Path) -> None:
    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    run_id = json.loads((runs / "uninterrupted" / "run.json").read_text())["mlflow_run_id"]
    run = client.get_run(run_id)
    assert run.data.params["algorithm.kl.kind"] == "token_adaptive"
    panels = {
        f"bucket/{bucket}/{name}" for bucket in ("easy", "medium", "hard") for name in ("alpha", "beta", "lambda")
    }
    assert run.data.metrics.keys() >= panels | {"critic/kl", "actor/pg_loss", "val/accuracy", "entropy/hwe_threshold"}
    assert {artifact.path for artifact in client.list_artifacts(run_id)} >= {"profile.yaml", "samples"}
    steps = {step for (key, step) in metric_history(runs, "uninterrupted") if key == "critic/kl"}
    assert steps == {1, 2, 3, 4}


def test_help_loads_nothing_that_takes_seconds_to_load() -> None:
    slow = {"torch", "pandas", "ray", "prefect", "mlflow", "transformers", "pydantic", "sandbox"}
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, flows.cli.main; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "typer" in loaded.stdout.split()
    assert not slow & set(loaded.stdout.split())


@pytest.mark.slow
def test_own_rows_with_an_own_reward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """jsonl with other column names, a format prompt, a model directory by path, a reward function in a file."""
    run_in_this_process(tmp_path, monkeypatch)
    rows = [json.loads(line) for line in (MODEL / "train.jsonl").read_text().splitlines()][:20]
    own = [{"question": row["prompt"], "solution": row["answer"]} for row in rows]
    (tmp_path / "reward.py").write_text(
        "def reward(completions, solution, **columns):\n"
        "    return [float(f'boxed{{{s}}}' in c) for c, s in zip(completions, solution)]\n"
    )
    shutil.copytree(MODEL, tmp_path / "model")
    settings = [
        f"data.train={written(tmp_path / 'own.jsonl', *own)}", "data.prompt_key=question", "data.answer_key=solution",
        "data.validation=null", f"model.path={tmp_path / 'model'}", "data.max_prompt_length=32",
        f"reward.kind={tmp_path / 'reward.py'}:reward", "train.steps=1", "algorithm.filter.enabled=false",
    ]  # fmt: skip
    train_here("tiny-math", [*SMALL, *settings], "own")
    assert set(samples(tmp_path, "own", 1)["id"]) <= {str(row) for row in range(20)}
