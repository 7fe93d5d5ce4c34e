"""`ares doctor`: packages that programs may import; the record of the machine that a run is on."""

import logging
from pathlib import Path

import pytest

from ares.config.profiles import load
from ares.runs import doctor
from ares.runs.doctor import _of_programs
from ares.runs.run import Run
from sandbox import packages
from tests.ares.builders import config


def test_packages_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(packages.VARIABLE, str(tmp_path))
    _, finding = _of_programs(None)
    assert finding.good
    assert len(finding.subject) <= 14  # as wide as the command shows it
    assert "ares sandbox packages add" in finding.text
    _, missing = _of_programs(load("tiny-code", ['reward.code.packages=["numpy"]']))
    assert not missing.good
    assert missing.text.endswith("ares sandbox packages add numpy")


def test_a_run_that_continues_on_another_machine_says_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another processor takes other kernels, whose last bits differ: nothing told."""
    here = doctor.describe_machine()
    assert all(here.values())
    there = here | {"processor": "Another Processor 9000", "torch": "1.13.0"}

    def resumed() -> list[str]:
        caplog.clear()
        Run.open(config(), "run", tmp_path).close()
        return [record.getMessage() for record in caplog.records if "another machine" in record.getMessage()]

    with caplog.at_level(logging.WARNING):
        assert resumed() == resumed() == []
        monkeypatch.setattr(doctor, "describe_machine", lambda: there)
        (told,) = resumed()
        assert f"processor {here['processor']} → Another Processor 9000, torch {here['torch']} → 1.13.0" in told
        assert resumed() == []
    run, _ = Run.check(config(), "run", tmp_path)
    described = run.store.read_run()
    assert described["machines"] == [here, there]
    run.store.write_run({name: value for name, value in described.items() if name != "machines"})
    assert resumed() == []  # a run from before machines were recorded
    assert run.store.read_run()["machines"] == [there]
