"""`ares ablate` as a user meets it: killed and started again, a failing child, refusals before the start."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from ares.ablations import list_children, read_ablation
from ares.config import override
from ares.errors import UserError
from ares.runs import Run
from ares.store.store import RunStore
from flows import ablate
from tests import mlflow_database
from tests.ares.store_builders import commit
from tests.shared_run import SMALL
from tests.short_runs import REPOSITORY, ares, assert_same_commits, commits, told
from tests.waiting import wait_for

VARIANTS = {"fixed": ["algorithm.kl.kind=fixed"], "token_adaptive": []}
CHILDREN = [f"penalty-{variant}-seed{seed}" for seed in (0, 1) for variant in VARIANTS]


def write(folder: Path, **changes: object) -> str:
    path = folder / "penalty.yaml"
    common = [*SMALL, "train.steps=3", "validation.every=1"]
    whole = {"name": "penalty", "profile": "tiny-math", "overrides": common, "variants": VARIANTS, "seeds": [0, 1]}
    path.write_text(yaml.safe_dump(whole | changes, sort_keys=False))
    return str(path)


def processes_of(runs: Path) -> list[str]:
    """All processes started for this directory of runs: they inherit the variable that names it."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("ARES_RUNS") == str(runs):
                processes.append(" ".join(process.cmdline())[:120])
        except psutil.Error:  # gone, or another user's
            continue
    return processes


def finished(runs: Path) -> dict[str, tuple[int, str]]:
    """Last commit of each finished child: when it was written, and its digest."""
    stores = {name: RunStore(runs / name) for name in CHILDREN}
    return {
        name: ((runs / name / "steps/000003/COMMIT.json").stat().st_mtime_ns, store.read_commit(3).digest())
        for name, store in stores.items()
        if (runs / name / "steps/000003/COMMIT.json").exists()
    }


@pytest.mark.slow
def test_killed_in_the_middle_it_leaves_nobody_behind_and_repeats_nothing_finished(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    command = [sys.executable, "-m", "flows.cli", "ablate", write(tmp_path, baseline="fixed"), "--parallel", "2"]
    environment = os.environ | {"ARES_RUNS": str(runs)}
    with (tmp_path / "out").open("wb") as output:
        parent = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=output, stderr=output)
        wait_for(lambda: finished(runs) or parent.poll() is not None, "a child that finished", 600)
        assert parent.poll() is None, (tmp_path / "out").read_text()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    wait_for(lambda: not processes_of(runs), "the end of all that it started", 30)
    before = finished(runs)
    assert 0 < len(before) < len(CHILDREN)

    ended = ares(runs, "ablate", write(tmp_path, baseline="fixed"), seconds=900)
    assert ended.returncode == 0, ended.stderr
    after = finished(runs)
    assert after.keys() == set(CHILDREN)
    assert {name: after[name] for name in before} == before
    for name in before:
        assert f"{name}: kept, finished before" in ended.stdout

    client = MlflowClient(tracking_uri=f"sqlite:///{runs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("penalty")
    assert experiment is not None
    entries = {entry.info.run_name: entry for entry in client.search_runs([experiment.experiment_id])}
    assert entries.keys() == {"penalty", *CHILDREN}  # one parent, though it was started twice
    assert {entry.info.status for entry in entries.values()} == {"FINISHED"}
    for name in CHILDREN:
        tags = entries[name].data.tags
        assert tags["mlflow.parentRunId"] == entries["penalty"].info.run_id
        assert f"penalty-{tags['ares.variant']}-seed{tags['ares.seed']}" == name
        assert tags["ares.logged_commit"] == RunStore(runs / name).digest(3)
        assert len(client.get_metric_history(entries[name].info.run_id, "val/accuracy")) == 4
    assert set(json.loads((runs / "penalty" / "ablation.json").read_text())["children"]) == set(CHILDREN)
    assert (runs / "penalty" / "report.html").exists()
    assert "val/accuracy" in ended.stdout.splitlines()[-3]  # the conclusion, where the report is, what to do
    artifacts = {artifact.path for artifact in client.list_artifacts(entries["penalty"].info.run_id)}
    assert artifacts == {"report.html", "report.csv", "report-problems.csv", "report.svg"}
    assert "val/accuracy against fixed, paired by seed: token_adaptive" in ended.stdout
    # The variants of a seed start from the same draws.
    draws = [RunStore(runs / name).read_commit(0).artifacts["samples"].sha256 for name in CHILDREN]
    assert draws[0] == draws[1] != draws[2] == draws[3]
    # They were drawn once per seed, by whichever came first; a run on its own is bit-identical.
    files = [
        {file.name: file.stat().st_ino for file in (runs / name / "bootstrap").glob("*.parquet")} for name in CHILDREN
    ]
    for one, other in ((0, 1), (2, 3)):
        assert {name for name in files[one] if files[one][name] == files[other][name]} == {
            name for name in files[one] if name.startswith(("rollout-", "score-"))
        }
    common = [*SMALL, "train.steps=3", "validation.every=1", "train.seed=1"]
    for child, variant in ((2, "fixed"), (3, "token_adaptive")):
        alone = ares(runs, "train", "tiny-math", *common, *VARIANTS[variant], "--run", f"alone-{variant}")
        assert alone.returncode == 0
        assert_same_commits(runs, CHILDREN[child], f"alone-{variant}")


@pytest.mark.slow
def test_children_end_with_the_step_that_reaches_their_budget_of_tokens(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    brief = ["rollout.max_response_length=40"]
    budget = {"equal_tokens": 2200, "seeds": [0], "variants": {"brief": brief, "long": []}}
    written = write(tmp_path, overrides=[*SMALL, "train.steps=9", "validation.every=9"], baseline="long", **budget)
    ended = ares(runs, "ablate", written, seconds=900)
    assert ended.returncode == 0, ended.stderr
    for variant in ("brief", "long"):
        made = commits(runs, f"penalty-{variant}-seed0")
        tokens = [each.state["counters"]["tokens"] for each in made]
        assert tokens[-2] < 2200 <= tokens[-1]
        assert len(made) < 10
        assert ("evaluation" in made[-1].artifacts, "checkpoint" in made[-1].artifacts) == (True, True)
    assert "kept, finished before" in ares(runs, "ablate", written, seconds=900).stdout


@pytest.mark.slow
def test_a_child_that_fails_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    exhausted = ["algorithm.filter.low=0.49", "algorithm.filter.high=0.491", "algorithm.filter.max_tries=1"]
    ended = ares(
        runs, "ablate", write(tmp_path, variants={"never_full": exhausted, "fine": []}, seeds=[0]), seconds=600
    )
    assert ended.returncode == 2
    assert "penalty-never_full-seed0: failed: error: step 1: after 1 rollouts" in ended.stdout, ended.stdout
    assert "penalty-fine-seed0: finished" in ended.stdout
    assert "1 of 2 children failed" in ended.stderr
    assert RunStore(runs / "penalty-fine-seed0").committed_steps() == [0, 1, 2, 3]


def refusal(runs: Path, *arguments: str) -> str:
    ended = told(runs, "ablate", *arguments, "--dry-run")
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_wrong_input_of_any_child_is_reported_before_the_first_starts(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for wrong, said in (
        (["model.path=/absent"], "model.path=/absent"),
        (["train.steps=9"], "train.steps is one for all"),
        (["data.validation=examples/tiny/checkpoints/math/train.jsonl"],
         "variants 'fine' and 'other' have different held-out problems"),
    ):  # fmt: skip
        assert said in refusal(runs, write(tmp_path, variants={"fine": [], "other": wrong}))
    assert "name: " in refusal(runs, write(tmp_path), "--name", "../up")
    assert not runs.exists()

    # An existing child with other settings is not trained further.
    config = {"model": {"path": "x"}, "data": {"train": "y"}}
    RunStore(runs / "penalty-fixed-seed1").write_run({"config": config, "digests": {}})
    complaint = refusal(runs, write(tmp_path))
    assert "'penalty-fixed-seed1' was started with other settings" in complaint
    assert "data.train: 'y' → 'examples/tiny/checkpoints/math/train.jsonl'" in complaint
    assert json.loads((runs / "penalty-fixed-seed1/run.json").read_text())["config"] == config


@pytest.mark.slow
def test_a_child_that_was_resumed_with_another_rounding_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ares resume CHILD learner.micro_batch_tokens=512`, and the ablation refused the child from then on."""

    def start(*command: str, **_: object) -> None:
        raise UserError(" ".join(command))

    runs = tmp_path / "runs"
    definition, source = read_ablation(write(tmp_path))
    child = list_children(definition, source)[0]
    resumed = override(child.config, ["learner.micro_batch_tokens=512"]).model_dump(mode="json")
    _, digests = Run.check(child.config, child.name, runs)
    begun = RunStore(runs / child.name)
    begun.write_run({"config": resumed, "digests": digests})
    assert told(runs, "ablate", write(tmp_path), "--dry-run").returncode == 0
    monkeypatch.setenv("ARES_RUNS", str(runs))
    monkeypatch.setattr(ablate.service, "start", start)
    with pytest.raises(UserError, match=f"flows.cli resume {child.name} "):
        asyncio.run(ablate.train_child.fn(child, "", tmp_path / "log"))

    begun.update_run(digests=digests | {"validation": "0"})  # as where the file has changed since
    assert f"Run '{child.name}': the validation data changed" in refusal(runs, write(tmp_path))


def test_where_mlflow_is_away_at_the_end_there_is_a_report_and_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow was away at an ablation's end, and there was no report."""
    runs = tmp_path / "runs"
    monkeypatch.setenv("ARES_RUNS", str(runs))
    mlflow_database.beside(runs)
    definition, source = read_ablation(write(tmp_path, seeds=[0], overrides=["train.steps=1"]))
    children = list_children(definition, source)
    for child in children:
        described = {"config": child.config.model_dump(mode="json"), "digests": {}, "mlflow_run_id": "f" * 32}
        store = RunStore(runs / child.name)
        store.write_run(described | {"code_version": "1"})
        state = {"counters": {"tokens": 9}, "evaluations": []}
        first = commit(0, None, state=state)
        store.write_commit(first)
        store.write_commit(commit(1, first, state=state, metrics={"val/accuracy": 0.5}))

    def refuse(*_: object) -> None:
        raise MlflowException("away")

    monkeypatch.setattr(MlflowClient, "get_run", refuse)
    plan = ablate.Plan(definition, children, [], 1, {})
    asyncio.run(ablate._train_and_compare(plan))
    told = capsys.readouterr()
    assert "val/accuracy against fixed" in told.out
    assert told.err.count("MLflow lacks a part of this run; when it is back: ares resume penalty-") == 2
    assert (runs / "penalty" / "report.html").exists()
