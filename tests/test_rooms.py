"""Imports point one way between the rooms, and the mathematics runs where only torch and transformers are."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
BELOW = {
    "flows": {"flows", "tasks", "ares", "algorithms", "rewards", "sandbox"},
    "tasks": {"tasks", "ares", "algorithms", "rewards", "sandbox"},
    "ares": {"ares", "algorithms", "rewards", "sandbox"},
    "algorithms": {"algorithms"},
    "rewards": {"rewards", "algorithms", "sandbox"},
    "sandbox": {"sandbox"},
}
"""Which rooms a room may import."""

OUTSIDE = {"tests", "benchmarks"}
ORCHESTRATION = {"prefect", "ray", "vllm", "mlflow"}
PURE = ["algorithms", "rewards", "ares/learner.py", "ares/language_model.py"]
FILES = sorted(path for room in BELOW for path in (REPOSITORY / room).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Top-level names of everything a file imports, at whatever place in it, with the line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level:  # a relative import stays in its room
            yield str(node.module).partition(".")[0], node.lineno


def modules(path: Path) -> Iterator[str]:
    """Dotted names of the modules of this repository that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.partition(".")[0] in BELOW)


def file_of(module: str) -> Path | None:
    stem = REPOSITORY.joinpath(*module.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.exists()), None)


def reached(start: list[Path]) -> set[Path]:
    """The files themselves and every file of this repository that they import, directly or not."""
    found: set[Path] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += [file for file in map(file_of, modules(path)) if file is not None]
    return found


def test_every_room_is_there_and_looked_at() -> None:
    assert {path.relative_to(REPOSITORY).parts[0] for path in FILES} == set(BELOW)
    assert len(FILES) > 40


@pytest.mark.parametrize("room", BELOW)
def test_imports_point_one_way(room: str) -> None:
    above = (set(BELOW) | OUTSIDE) - BELOW[room]
    wrong = [
        f"{path.relative_to(REPOSITORY)}:{line} imports {name}"
        for path in FILES
        if path.relative_to(REPOSITORY).parts[0] == room
        for name, line in imports(path)
        if name in above
    ]
    assert wrong == []


@pytest.mark.parametrize("place", PURE)
def test_the_mathematics_and_the_learner_import_no_orchestration_directly_or_through_others(place: str) -> None:
    path = REPOSITORY / place
    start = [path] if path.is_file() else sorted(path.rglob("*.py"))
    wrong = [
        f"{file.relative_to(REPOSITORY)}:{line} imports {name}"
        for file in sorted(reached(start))
        for name, line in imports(file)
        if name in ORCHESTRATION
    ]
    assert wrong == []


def test_the_walk_follows_imports_through_modules() -> None:
    """Otherwise the test above could pass by seeing nothing."""
    assert REPOSITORY / "ares" / "config.py" in reached([REPOSITORY / "ares" / "learner.py"])
    assert REPOSITORY / "algorithms" / "protocol.py" in reached([REPOSITORY / "ares" / "learner.py"])
    everything = reached([REPOSITORY / "flows" / "train.py"])
    assert {name for path in everything for name, _ in imports(path)} >= {"prefect", "ray", "mlflow"}


def test_the_sandboxs_foreign_side_needs_the_standard_library_only() -> None:
    worker = sorted((REPOSITORY / "sandbox" / "worker").rglob("*.py"))
    assert worker
    own = sys.stdlib_module_names | {"sandbox"} | {path.stem for path in worker}
    assert [f"{path.name}:{line} {name}" for path in worker for name, line in imports(path) if name not in own] == []
