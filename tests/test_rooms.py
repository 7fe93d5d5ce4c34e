"""Packages import only from those below them, the mathematics needs only torch and transformers, and only the sandbox
executes text."""

import ast
import functools
import sys
from collections.abc import Iterable, Iterator
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
    "examples": {"examples", "flows", "tasks", "ares", "algorithms", "rewards", "sandbox"},
}
"""Which packages each may import."""

OUTSIDE = {"tests", "benchmarks"}
ORCHESTRATION = {"prefect", "ray", "vllm", "mlflow"}
ARRAYS = {"torch", "numpy", "pandas"}
"""What flows/ holds none of: its place is beneath the tasks."""
PURE = ["algorithms", "rewards", "ares/learner", "ares/models"]
PACKAGES = [
    "config", "store", "data", "environments", "models", "engines", "learner", "workers", "cluster", "grading", "step",
    "runs", "evaluation", "reports", "ablations", "history", "browse",
]  # fmt: skip
"""The packages of ares: each may import the `__init__` of those before it."""
FILES_OF = {room: sorted((REPOSITORY / room).rglob("*.py")) for room in BELOW}
FILES = [path for files in FILES_OF.values() for path in files]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    """All of a file's syntax tree that imports something."""
    return [node for node in ast.walk(parsed(path)) if isinstance(node, ast.Import | ast.ImportFrom)]


def imports(path: Path) -> Iterator[tuple[str, int]]:
    """Top-level names of everything that a file imports, wherever in it, with the line."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level:  # a relative import stays in its room
            yield str(node.module).partition(".")[0], node.lineno


def violations(paths: Iterable[Path], names: set[str]) -> list[str]:
    """Where files import what they must not."""
    return [
        f"{path.relative_to(REPOSITORY)}:{line} imports {name}"
        for path in paths
        for name, line in imports(path)
        if name in names
    ]


def modules(path: Path) -> Iterator[str]:
    """Dotted names of the modules of this repository that a file imports."""
    for node in nodes(path):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.partition(".")[0] in BELOW)


def for_types(path: Path) -> set[str]:
    """Modules that a file imports for its annotations alone."""
    blocks = [node for node in parsed(path).body
              if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]  # fmt: skip
    return {str(node.module) for block in blocks for node in ast.walk(block) if isinstance(node, ast.ImportFrom)}


def file_of(module: str) -> Path | None:
    stem = REPOSITORY.joinpath(*module.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.exists()), None)


def reached(start: list[Path]) -> set[Path]:
    """The files themselves and every file of this repository that they import, directly or not."""
    files: set[Path] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in files:
            files.add(path)
            waiting += [file for file in map(file_of, modules(path)) if file is not None]
    return files


def test_every_room_is_there_and_looked_at() -> None:
    assert {path.parent.name for path in REPOSITORY.glob("[!.]*/*.py")} - OUTSIDE == set(BELOW)
    assert all(FILES_OF.values())


@pytest.mark.parametrize("room", BELOW)
def test_imports_point_one_way(room: str) -> None:
    assert violations(FILES_OF[room], (set(BELOW) | OUTSIDE) - BELOW[room]) == []


@pytest.mark.parametrize("place", PURE)
def test_the_mathematics_and_the_learner_import_no_orchestration_directly_or_through_others(place: str) -> None:
    assert violations(sorted(reached(sorted((REPOSITORY / place).rglob("*.py")))), ORCHESTRATION) == []


def test_flows_hold_no_tensors_and_no_data_frames() -> None:
    assert violations(FILES_OF["flows"], ARRAYS) == []


def test_the_sandbox_needs_the_standard_library_only() -> None:
    names = {name for path in FILES_OF["sandbox"] for name, _ in imports(path)}
    assert names - sys.stdlib_module_names == {"sandbox"}


def test_every_package_of_ares_has_its_place() -> None:
    packages = {path.parent.name for path in (REPOSITORY / "ares").glob("*/__init__.py")}
    assert packages == set(PACKAGES)
    modules_of = {name: len(list((REPOSITORY / "ares" / name).glob("*.py"))) for name in packages}
    assert {name: count for name, count in modules_of.items() if count > 14} == {}


def package_imports() -> Iterator[tuple[str, Path, str]]:
    """Where a file is (a package of ares, `tasks`, `flows`), the file, and the package of ares it imports from."""
    for path in FILES:
        parts = path.relative_to(REPOSITORY).parts
        place = parts[1] if parts[0] == "ares" else parts[0]
        for node in nodes(path):
            if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ares."):
                target = str(node.module)
                if target.split(".")[1] in PACKAGES and target.split(".")[1] != place:
                    yield place, path, target


def test_packages_of_ares_import_one_way() -> None:
    """A list in which each imports only those before it has no cycle."""
    among = [(place, path, target) for place, path, target in package_imports() if place in PACKAGES]
    assert len(among) > 50
    wrong = [
        f"{path.relative_to(REPOSITORY)} imports {target}"
        for place, path, target in among
        if PACKAGES.index(target.split(".")[1]) > PACKAGES.index(place)
    ]
    assert wrong == []


def test_packages_are_imported_by_their_face() -> None:
    """Nobody outside a package of ares names its modules, so that these may be rearranged."""
    wrong = [
        f"{path.relative_to(REPOSITORY)} imports {target}"
        for _, path, target in package_imports()
        if target.count(".") > 1
    ]
    assert wrong == []


def test_modules_of_a_package_import_each_other_without_a_circle() -> None:
    for package in PACKAGES:
        stems = {path.stem: path for path in (REPOSITORY / "ares" / package).glob("*.py") if path.stem != "__init__"}
        needed_by = {stem: {*modules(path)} - for_types(path) for stem, path in stems.items()}
        beneath = {
            stem: {other for other in stems if f"ares.{package}.{other}" in needed} - {stem}
            for stem, needed in needed_by.items()
        }
        while free := [stem for stem, needed in beneath.items() if not needed]:
            beneath = {stem: needed - set(free) for stem, needed in beneath.items() if stem not in free}
        assert beneath == {}, f"ares/{package}: a circle among {sorted(beneath)}"


def test_the_walk_follows_imports_through_modules() -> None:
    """Otherwise the test above could pass by seeing nothing."""
    learner = REPOSITORY / "ares" / "learner" / "learner.py"
    assert REPOSITORY / "ares" / "config" / "run.py" in reached([learner])
    assert REPOSITORY / "algorithms" / "protocol.py" in reached([learner])
    everything = reached([REPOSITORY / "flows" / "start.py"])
    assert {name for path in everything for name, _ in imports(path)} >= {"prefect", "ray", "mlflow"}


# ---- who executes text ----------------------------------------------------------------------------------------------

EXECUTING_NAMES = {"exec", "eval", "compile", "__import__"}
EXECUTING_MODULES = {"subprocess", "pty", "runpy", "code", "codeop", "marshal", "pickle", "shelve"}
EXECUTING_MODULES |= {"cloudpickle", "dill", "joblib"}
EXECUTING_OS = ("system", "popen", "exec", "spawn", "posix_spawn")
# (file, what): why it is not untrusted text.
USERS_OWN = "executes the file that the user's own profile names, as `import` would"
CHANNEL = "passes arguments and results to and from the user's own function in a process of its own"
ALLOWED = {
    **{("ares/config/extensions.py", what): USERS_OWN for what in ("compile", "exec")},
    ("ares/grading/function_process.py", "import pickle"): CHANNEL,
    ("ares/grading/functions.py", "import pickle"): CHANNEL,
    ("rewards/child_process.py", "import subprocess"): "starts the process of a user's function or of environments",
    ("examples/extensions/verified.py", "import subprocess"): "starts verifiers in a Python of its own",
    ("ares/models/weights.py", "import pickle"): "names its error, that of a damaged file of weights",
    ("ares/runs/description.py", "import subprocess"): "asks git for the version of the code",
    ("flows/servers/deployment.py", "import subprocess"): "runs `prefect deploy`, with arguments of its own",
    ("flows/servers/service.py", "import subprocess"): "starts the servers, with arguments of our own",
    ("flows/servers/service.py", "import runpy"): "becomes a server, as `python -m` would",
}


def executing(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (f"import {alias.name}" for alias in node.names if alias.name.split(".")[0] in EXECUTING_MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in EXECUTING_MODULES:
            yield f"import {node.module}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EXECUTING_NAMES:
            yield node.func.id
        elif isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else ""
            of_os = owner == "os" and node.attr.startswith(EXECUTING_OS)
            if of_os or (owner == "builtins" and node.attr in EXECUTING_NAMES):
                yield f"{owner}.{node.attr}"
            elif node.attr.startswith("create_subprocess_"):
                yield f"asyncio.{node.attr}"


def test_only_the_sandbox_executes_text() -> None:
    places = {
        (str(path.relative_to(REPOSITORY)), what)
        for room in BELOW.keys() - {"sandbox"}
        for path in FILES_OF[room]
        for what in executing(parsed(path))
    }
    assert places == set(ALLOWED)


def test_the_search_finds_what_it_should() -> None:
    text = "import subprocess as s\nfrom pickle import loads\nexec(x)\nos.execv(a, b)\nre.compile('a')\nmodel.eval()\n"
    text += "asyncio.create_subprocess_shell(x)\nbuiltins.eval(x)\n"
    names = ["asyncio.create_subprocess_shell", "builtins.eval", "exec", "import pickle", "import subprocess"]
    assert sorted(executing(ast.parse(text))) == [*names, "os.execv"]
