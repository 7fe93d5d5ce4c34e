"""A run that continues on another processor or torch says so once, and its run.json names both."""

import logging
from pathlib import Path

import pytest

from ares.runs import machine
from ares.runs.run import Run
from tests.ares.builders import config


def test_a_run_that_continues_on_another_machine_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another processor takes other kernels, whose last bits differ: nothing told."""
    here = machine.describe_machine()
    assert all(here.values())
    there = here | {"processor": "Another Processor 9000", "torch": "1.13.0"}

    def resumed() -> list[str]:
        caplog.clear()
        Run.open(config(), "run", tmp_path).close()
        return [record.getMessage() for record in caplog.records if "another machine" in record.getMessage()]

    with caplog.at_level(logging.WARNING):
        assert resumed() == resumed() == []
        monkeypatch.setattr(machine, "describe_machine", lambda: there)
        (told,) = resumed()
        assert f"processor {here['processor']} → Another Processor 9000, torch {here['torch']} → 1.13.0" in told
        assert resumed() == []
    run, _ = Run.check(config(), "run", tmp_path)
    assert run.store.read_run()["machines"] == [here, there]


def test_a_run_from_before_machines_were_recorded_gets_this_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Run.open(config(), "run", tmp_path).store
    description = store.read_run()
    del description["machines"]
    store.write_run(description)
    Run.open(config(), "run", tmp_path).close()
    assert store.read_run()["machines"] == [machine.describe_machine()]
    assert "another machine" not in caplog.text
