"""Parses Python text from any thread, and walks the syntax trees."""

import ast
import threading
import warnings

# Such warnings are about untrusted programs; on the terminal they would be thousands of lines a step.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=r"<(text|test|setup)>")
_ONE_AT_A_TIME = threading.Lock()
"""CPython 3.11 counts a tree's depth for all threads together: two that build trees at once raise SystemError."""


def parse(text: str, filename: str = "<text>") -> ast.Module:
    """The tree of a text. Raises what `ast.parse` raises."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, filename)


_NAMELESS = (ast.Constant, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)


def below(node: ast.AST) -> list[ast.AST]:
    """A node's children, as `ast.iter_child_nodes` but faster and without those that never hold a name."""
    nodes: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field)
        if type(value) is list:
            nodes += [part for part in value if isinstance(part, ast.AST) and type(part) is not ast.Constant]
        elif isinstance(value, ast.AST) and not isinstance(value, _NAMELESS):
            nodes.append(value)
    return nodes
