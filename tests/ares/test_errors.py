"""Every error of ours that can reach the command line is shown without a traceback."""

import ast
from pathlib import Path

import pytest

from ares.errors import UserError
from flows.cli import main as command_line
from sandbox import SandboxUnavailable

REPOSITORY = Path(__file__).resolve().parents[2]
TRANSLATED = {
    "RowError",
    "NoTests",
    "ActorHung",
    "ProcessGone",
    "Unreadable",
    "NoReply",
    "ToolError",
    "Submitted",
    "AgentFailed",
}
"""Errors that the calling module re-raises, with the file's row or the actor's name, or takes as an answer."""


def error_classes() -> dict[str, set[str]]:
    """Names of the exceptions that the packages above the sandbox define, with those of their bases."""
    classes = {}
    for room in ("ares", "tasks", "flows", "rewards", "algorithms"):
        for path in sorted((REPOSITORY / room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    classes[node.name] = {base.id for base in node.bases if isinstance(base, ast.Name)}
    errors = {"Exception", "UserError"}
    while more := {name for name, bases in classes.items() if name not in errors and any(
        base in errors or base.endswith("Error") for base in bases
    )}:  # fmt: skip
        errors |= more
    return {name: classes[name] for name in errors & classes.keys()}


def test_every_error_that_is_ours_is_written_for_the_user() -> None:
    classes = error_classes()
    assert classes.keys() >= {"ConfigError", "StoreError", "DamagedArtifact", "FilterExhausted", "RowError"}
    told = {"UserError"}
    while more := {name for name, bases in classes.items() if bases & told} - told:
        told |= more
    assert classes.keys() - told == TRANSLATED


@pytest.mark.parametrize("error", [UserError("change this"), SandboxUnavailable("change this")])
def test_such_an_error_is_shown_as_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def app() -> None:
        raise error

    monkeypatch.setattr(command_line, "app", app)
    with pytest.raises(SystemExit) as ended:
        command_line.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: change this\n"


def test_a_defect_of_ours_keeps_its_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def app() -> None:
        raise RuntimeError("ours")

    monkeypatch.setattr(command_line, "app", app)
    with pytest.raises(RuntimeError, match="ours"):
        command_line.main()
