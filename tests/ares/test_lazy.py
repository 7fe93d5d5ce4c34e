"""Names of packages that are imported at their first use."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import ares.reports

ONLY_READING = """
import sys
from ares.browse import serve
from ares.history import family
from ares.runs import collect, first_difference, verify
from ares.store import run_status
print(sorted({"datasets", "mlflow", "ray", "torch", "transformers"} & set(sys.modules)))
"""


def test_what_only_reads_runs_waits_for_none_of_the_large_libraries() -> None:
    """They take up to ten seconds: `ares status`, `history`, `diff`, `verify`, `gc` and `browse` do without them."""
    ended = subprocess.run([sys.executable, "-c", ONLY_READING], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_a_name_that_a_package_does_not_have_is_an_error_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match=r"module 'ares\.reports' has no attribute 'Trackings'"):
        _ = ares.reports.Trackings  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'Trackings'"):
        from ares.reports import Trackings  # type: ignore[attr-defined]  # noqa: F401


@pytest.mark.parametrize(
    "package", sorted(Path(ares.reports.__file__).parents[1].glob("*/__init__.py")), ids=lambda path: path.parent.name
)
def test_no_package_exports_a_name_that_one_of_its_modules_has(package: Path) -> None:
    """The name would be the module from the moment at which anything imports that."""
    imports = [node for node in ast.walk(ast.parse(package.read_text())) if isinstance(node, ast.ImportFrom)]
    names = {name.name for node in imports for name in node.names}
    assert names & {path.stem for path in package.parent.iterdir()} == set()
