"""`ares status` without a name. Of one run: tests/e2e/test_command_line.py."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ares.store import RunStore
from flows.cli.main import app
from tests.ares.builders import config
from tests.ares.store_builders import commit


def test_all_runs_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing name was an error."""
    monkeypatch.setenv("ARES_RUNS", str(tmp_path))
    for name, steps in (("begun", 1), ("new", 0)):
        store = RunStore(tmp_path / name)
        store.write_run({"config": config("train.steps=4").model_dump(mode="json"), "digests": {}})
        for step in range(steps):
            store.write_commit(commit(step, None, state={"counters": {"tokens": 0}, "evaluations": []}))
    (tmp_path / "mlflow.db").touch()
    RunStore(tmp_path / "damaged").write_run({})
    told = CliRunner().invoke(app, ["status"], catch_exceptions=False)
    assert told.stdout.splitlines() == ["begun  stopped  step 0 of 4", "new  new  step 0 of 4"]
    assert "damaged" in told.stderr
    as_json = CliRunner().invoke(app, ["status", "--json"], catch_exceptions=False).stdout.splitlines()
    assert [json.loads(line)["run"] for line in as_json] == ["begun", "new"]
