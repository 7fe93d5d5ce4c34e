"""The value of an arithmetic expression in Python's notation, in bounded time and memory.

Whole numbers are exact, up to a few thousand digits; others are floats, given with 12 digits. Not covered: LaTeX,
fractions, variables (rewards/expressions.py).
"""

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from typing import Any

MOST_BITS = 10_000
"""Of a whole number."""
LONGEST = 1000
"""Characters of an expression."""
SPELLINGS = str.maketrans({"×": "*", "·": "*", "÷": "/", "−": "-", "^": "**"})
OPERATORS: Mapping[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
OF_MATH = ["sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "floor", "ceil", "gcd"]
FUNCTIONS: Mapping[str, Callable[..., Any]] = {name: getattr(math, name) for name in OF_MATH} | {
    "abs": abs,
    "max": max,
    "min": min,
    "round": lambda value, digits=0: round(value, max(-300, min(int(digits), 300))),
}
CONSTANTS: Mapping[str, float] = {"pi": math.pi, "e": math.e}


def evaluate(expression: str) -> str:
    """The value as text. Raises ValueError in one line if there is none."""
    if len(expression) > LONGEST:
        raise ValueError(f"the expression has more than {LONGEST} characters")
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(expression.strip().translate(SPELLINGS), mode="eval")
        value = _value(tree.body)
    except SyntaxError as error:
        raise ValueError(f"not an expression: {error.msg}") from error
    except OverflowError as error:
        raise ValueError("the number is too large") from error
    except (RecursionError, MemoryError) as error:
        raise ValueError("nested too deeply") from error
    except (ArithmeticError, TypeError) as error:
        raise ValueError(str(error)) from error
    return str(value) if isinstance(value, int) else f"{value:.12g}"


def _value(node: ast.AST) -> int | float:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            result = value
        case ast.Name(id=name) if name in CONSTANTS:
            result = CONSTANTS[name]
        case ast.UnaryOp(op=sign, operand=inner) if type(sign) in OPERATORS:
            result = OPERATORS[type(sign)](_value(inner))
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATORS:
            one, other = _value(left), _value(right)
            if isinstance(sign, ast.Pow) and isinstance(one, int) and one.bit_length() * abs(other) > MOST_BITS:
                raise OverflowError
            result = OPERATORS[type(sign)](one, other)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS:
            result = FUNCTIONS[name](*map(_value, arguments))
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            raise ValueError(f"{name} is unknown (known: {', '.join([*FUNCTIONS, *CONSTANTS])})")
        case _:
            raise ValueError(f"{ast.unparse(node)[:40]} is not arithmetic")
    if isinstance(result, int):
        if result.bit_length() > MOST_BITS:
            raise OverflowError
    elif isinstance(result, complex) or not math.isfinite(result):
        raise ValueError("there is no finite real value")
    return result
