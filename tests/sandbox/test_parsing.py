"""Syntax trees are built from several threads: graders parse responses while pools parse tests."""

import ast
import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

from sandbox import parse

TEXTS = ["assert f([" + "1, (2, [3, {4: (5,)}]), " * length + "]) == 1" for length in range(200, 224)]


class Cycle:
    """Collected while a tree is built, it lets other threads run."""

    def __init__(self) -> None:
        self.me = self

    def __del__(self) -> None:
        sum(range(200))


def parsed(text: str) -> ast.Module:
    for _ in range(20):
        Cycle()
    return parse(text)


def test_threads_that_parse_at_the_same_time_get_their_trees() -> None:
    """Without the lock CPython 3.11 raises SystemError in some: AST constructor recursion depth mismatch."""
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(8) as threads:
            trees = list(threads.map(parsed, TEXTS))
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*thresholds)
    assert [ast.unparse(tree) for tree in trees] == [ast.unparse(ast.parse(text)) for text in TEXTS]


def test_what_python_would_warn_of_in_a_foreign_text_is_not_printed() -> None:
    """In a process of its own: pytest has filters of its own."""
    call = "from sandbox.lanes import problem; problem('a = 1 is 1', ('assert f(1) is 1', 'assert (f(1), 2)'), None)"
    ended = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
