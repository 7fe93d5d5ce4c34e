"""Nothing in the product executes text outside sandbox/: a search of every module, with an explicit allow-list."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
ROOMS = ("algorithms", "ares", "examples", "flows", "profiles", "rewards", "tasks")
EXECUTING_NAMES = {"exec", "eval", "compile", "__import__"}
EXECUTING_MODULES = {"subprocess", "pty", "runpy", "code", "codeop", "marshal", "pickle", "shelve"}
EXECUTING_MODULES |= {"cloudpickle", "dill", "joblib"}
EXECUTING_OS = ("system", "popen", "exec", "spawn", "posix_spawn")
# (file, what): why it is not untrusted text.
USERS_OWN = "executes the file that the user's own profile names, as `import` would"
CHANNEL = "passes arguments and results to and from the user's own function in a process of its own"
ALLOWED = {
    **{("ares/config/extensions.py", what): USERS_OWN for what in ("compile", "exec")},
    **{("ares/grading/function_process.py", what): USERS_OWN for what in ("compile", "exec")},
    ("ares/grading/function_process.py", "import pickle"): CHANNEL,
    ("ares/grading/functions.py", "import pickle"): CHANNEL,
    ("rewards/child_process.py", "import subprocess"): "starts the process of a user's function or of environments",
    (
        "examples/extensions/verified.py",
        "import subprocess",
    ): "starts verifiers in a Python of its own",
    ("flows/ablate.py", "asyncio.create_subprocess_exec"): "starts `ares train` for each child, with checked settings",
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
            owner = ast.unparse(node.value)
            if (owner == "os" and node.attr.startswith(EXECUTING_OS)) or (
                owner == "builtins" and node.attr in EXECUTING_NAMES
            ):
                yield f"{owner}.{node.attr}"
            elif node.attr.startswith("create_subprocess_"):
                yield f"asyncio.{node.attr}"


def test_every_room_is_searched() -> None:
    rooms = {path.parent.name for path in REPOSITORY.glob("[!.]*/*.py")}
    assert rooms - {"sandbox", "tests", "benchmarks"} <= set(ROOMS)


def test_only_the_sandbox_executes_text() -> None:
    places = {
        (str(path.relative_to(REPOSITORY)), what)
        for room in ROOMS
        for path in sorted((REPOSITORY / room).rglob("*.py"))
        for what in executing(ast.parse(path.read_text()))
    }
    unexpected = places - set(ALLOWED)
    assert not unexpected, f"text is executed outside sandbox/: {sorted(unexpected)}"


def test_the_search_finds_what_it_should() -> None:
    text = "import subprocess as s\nfrom pickle import loads\nexec(x)\nos.execv(a, b)\nre.compile('a')\nmodel.eval()\n"
    text += "asyncio.create_subprocess_shell(x)\nbuiltins.eval(x)\n"
    names = ["asyncio.create_subprocess_shell", "builtins.eval", "exec", "import pickle", "import subprocess"]
    assert sorted(executing(ast.parse(text))) == [*names, "os.execv"]


def test_the_sandbox_is_standard_library_only() -> None:
    foreign = set()
    for path in (REPOSITORY / "sandbox").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            foreign |= {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"sandbox"}
    assert foreign == set()
