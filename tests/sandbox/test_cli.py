"""`ares sandbox probe` and `ares sandbox run`, as a user calls them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli.sandbox import app, split_tests


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text("def f(x):\n    print('seen [x]')\n    return x + 1\n")
    return path


def test_probe_names_every_layer() -> None:
    result = CliRunner().invoke(app, ["probe"])
    for layer in ("namespaces", "root", "uid", "landlock", "seccomp", "rlimits"):
        assert f"{layer}: " in result.output
    assert ("min_isolation=standard: yes" in result.output) == (result.exit_code == 0)


@pytest.mark.parametrize(("test", "status"), [("assert f(1) == 2", 0), ("assert f(1) == 3", 1), ("assert f('a')", 1)])
def test_run_shows_one_verdict(program: Path, tmp_path: Path, test: str, status: int) -> None:
    tests = tmp_path / "tests.py"
    tests.write_text(f"# a comment\n{test}\nassert f(2) == 3\n\nx = f(3)\nassert x == 4\n")
    result = CliRunner().invoke(app, ["run", str(program), "--tests", str(tests)])
    assert result.exit_code == status, result.output
    assert "seen [x]" in result.output
    assert "100 % of the tests" in result.output if status == 0 else "67 % of the tests" in result.output


def test_run_refuses_an_unknown_level(program: Path) -> None:
    result = CliRunner().invoke(app, ["run", str(program), "--tests", str(program), "--min-isolation", "some"])
    assert (result.exit_code, result.stderr) == (2, "min_isolation must be one of none, standard, not 'some'\n")


def test_tests_that_are_not_text_are_refused_in_one_line(program: Path, tmp_path: Path) -> None:
    tests = tmp_path / "tests.py"
    tests.write_bytes(b"assert f('\xff')")
    for options in (["--tests", str(tests)], ["--tests", str(program), "--setup", str(tests)]):
        result = CliRunner().invoke(app, ["run", str(program), *options])
        assert (result.exit_code, result.stderr) == (2, f"{tests}: not UTF-8 text (byte 11)\n")


def test_tests_in_a_file() -> None:
    text = "assert f(1) == 2\nassert f(2) == 3\n\nx = 1\nassert f(x)\n"
    assert split_tests(text, None) == ["assert f(1) == 2", "assert f(2) == 3", "x = 1\nassert f(x)"]
    assert split_tests(text, "f") == [text]
