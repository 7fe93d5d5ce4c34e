"""Packages in the worker: imported once, by the zygote, for the checker and all candidates that it forks."""

import functools
import importlib
import os
import random
import sys
from collections.abc import Callable
from typing import Any

_FOLDERS: list[str] = []
_PAGE = os.sysconf("SC_PAGE_SIZE")


def load(names: list[str], folders: list[str]) -> None:
    """Import packages from their folders; programs can import what else lies there. Raises ImportError."""
    sys.path += folders
    _FOLDERS.extend(folders)
    # Their after-fork hooks are for threads, which a zygote does not have: left out, like the standard library's.
    register, os.register_at_fork = os.register_at_fork, lambda **hooks: None
    try:
        for name in names:
            importlib.import_module(name)
    finally:
        os.register_at_fork = register
    if "numpy" in sys.modules:
        importlib.import_module("numpy.ma")  # numpy.unique imports it, which would be slow in every candidate
        testing = importlib.import_module("numpy.testing")
        _refuse_empty(testing._private.utils, "assert_array_compare", _not_empty, skip=1)
        _refuse_empty(sys.modules["numpy"], "allclose", lambda numpy: False)
        _refuse_empty(sys.modules["numpy"], "array_equiv", lambda numpy: False)
        _refuse_empty(sys.modules["numpy"], "isclose", lambda numpy: numpy.zeros(1, bool))
        sys.modules["numpy"].ones((64, 64)) @ sys.modules["numpy"].ones((64, 64))  # has BLAS map its buffers


def _not_empty(numpy: Any) -> Any:
    raise AssertionError("one side is empty")


def _refuse_empty(module: Any, name: str, otherwise: Callable[[Any], Any], skip: int = 0) -> None:
    """Have a comparison fail if one side is empty and the other is not.

    An empty array broadcasts to nothing, of which everything is true: `allclose([], [1.0])` would hold.
    """
    numpy, compare = sys.modules["numpy"], getattr(module, name)

    @functools.wraps(compare)
    def strict(*args: Any, **kwargs: Any) -> Any:
        sizes = [numpy.size(value) for value in args[skip : skip + 2]]
        return otherwise(numpy) if len(sizes) == 2 and 0 in sizes and any(sizes) else compare(*args, **kwargs)

    setattr(module, name, strict)


def modules() -> list[str]:
    """Names of all their modules that have been imported."""
    return [name for name, module in sys.modules.items() if _is_of_package(module)]


def _is_of_package(module: Any) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and any(file.startswith(f"{folder}/") for folder in _FOLDERS)


def is_value(value: Any) -> bool:
    """Whether a value's class is, or derives from, one of theirs."""
    return bool(_FOLDERS) and any(_is_of_package(sys.modules.get(kind.__module__)) for kind in type(value).__mro__)


def seed(number: int) -> None:
    """Seed the random generators that every program shares: `random`, and numpy's if that is loaded."""
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % (1 << 32))


def memory(proc: int) -> tuple[int, int]:
    """(bytes that this process has mapped, bytes that a fork has resident at once: those of no file).

    proc: a descriptor of /proc, which may no longer be visible.
    """
    file = os.open("self/statm", os.O_RDONLY, dir_fd=proc)
    mapped, resident, of_files, *_ = map(int, os.read(file, 256).split())
    os.close(file)
    return mapped * _PAGE, (resident - of_files) * _PAGE
