"""Python text to syntax trees, from any thread, and a way through them."""

import ast
import threading
import warnings

# A line on the terminal for each new text would be about foreign programs, and thousands a step.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=r"<(text|test|setup)>")
_ONE_AT_A_TIME = threading.Lock()
"""CPython 3.11 counts the depth of a tree for all threads together: two that build one at a time raise SystemError."""


def parse(text: str, filename: str = "<text>") -> ast.Module:
    """The tree of a text. Raises what `ast.parse` raises."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, filename)


_NAMELESS = (ast.Constant, ast.expr_context, ast.boolop, ast.operator, ast.unaryop, ast.cmpop)


def below(node: ast.AST) -> list[ast.AST]:
    """What a node consists of: as `ast.iter_child_nodes`, but for what never holds a name, only quicker."""
    nodes: list[ast.AST] = []
    for field in node._fields:
        value = getattr(node, field)
        if type(value) is list:
            nodes += [part for part in value if isinstance(part, ast.AST) and type(part) is not ast.Constant]
        elif isinstance(value, ast.AST) and not isinstance(value, _NAMELESS):
            nodes.append(value)
    return nodes
