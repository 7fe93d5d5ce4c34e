"""Names of a package that are imported at their first use.

A package names what it exports in an `if TYPE_CHECKING:` block, as type checkers and editors read it, and sets
`__getattr__ = exports(__name__)` elsewhere. So `ares history` does not wait for torch, which other names need.
No name is that of a module of its package: importing that module would put it in the name's place.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def exports(package: str) -> Callable[[str], Any]:
    """The `__getattr__` (PEP 562) of a package: imports a name from the module that its TYPE_CHECKING block says."""
    source = Path(str(sys.modules[package].__file__)).read_text(encoding="utf-8")
    modules = {
        name.name: str(line.module)
        for block in ast.parse(source).body
        if isinstance(block, ast.If)
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for name in line.names
    }

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, found)
        return found

    return load
