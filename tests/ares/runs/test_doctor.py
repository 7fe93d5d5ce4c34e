"""`ares doctor`: what it reports about packages that programs may import."""

from pathlib import Path

import pytest

from ares.config.profiles import load
from ares.runs.doctor import _packages
from sandbox import packages


def test_packages_of_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(packages.VARIABLE, str(tmp_path))
    finding = _packages(None)
    assert finding.good
    assert len(finding.subject) <= 14  # as wide as the command shows it
    assert "ares sandbox packages add" in finding.text
    missing = _packages(load("tiny-code", ['reward.code.packages=["numpy"]']))
    assert not missing.good
    assert missing.text.endswith("ares sandbox packages add numpy")
