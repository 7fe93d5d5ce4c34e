"""Published sets of programming problems: one adapter a set turns its rows into ours.

Covered: by which columns a row is recognised, where its tests, reference solution and setup are, how a bare problem is
asked of a chat model, and begun for a base model. Not covered: the shapes of tests (ares/data/code_tests.py), checks of
what was found (ares/data/code.py), where files lie and within which limits they are judged (ares/evaluation/suites.py).

An adapter returns our columns (docs/evaluation.md), as far as the row says anything of them, and

- `asked`: the prompt for a chat model; absent: the statement, with what a script or function has to do
- `begun`: (the text that a base model continues, the part of it that belongs to the program), and `stops`, the strings
  that end its response
- `before`, `after`: code put around every program

What a row has in our own columns counts more. To add a set, write an adapter and put it into `CODE_SETS`.
"""

import ast
import base64
import builtins
import pickletools
import re
import sys
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from ares.data.code_tests import CONTEST_IMPORTS, RowError, adapter, json_value

Row = dict[str, Any]
FENCE = "Answer with the whole program in one ```python block."
STATEMENTS = (
    "text", "question", "instruct_prompt", "question_content", "problem", "description", "problem_description",
    "prompt",
)  # fmt: skip
"""Columns in which the sets state a problem."""
AFTER_FUNCTIONS = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint", "\n@", "\n```")
"""Stop strings after a function's body: Chen et al. 2021 (arXiv 2107.03374, section 2.1), a decorator, a fence."""
AFTER_PROGRAMS = ('\n"""', "\nassert ", "\n```")
"""Stop strings after a whole program that a docstring asked for, after bigcode-evaluation-harness."""
_MOST_BYTES = 1 << 29
_TEXT_CODES = ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE")
_FRAME_CODES = ("PROTO", "FRAME", "MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT", "STOP")


def humaneval(row: Row) -> Row:
    """The head of a function: tests see its helpers and imports too."""
    head, solution = row["prompt"], text_of(row, "canonical_solution")
    return {
        "setup": head,
        "solution": None if solution is None else head + solution,
        "asked": f"Complete this Python function. {FENCE}\n\n```python\n{head.rstrip()}\n```",
        **_begun_function(head),
    }


def bigcodebench(row: Row) -> Row:
    """Its judge puts imports and the function's signature before every answer."""
    libs = row.get("libs", ())
    try:
        names = ast.literal_eval(libs) if isinstance(libs, str) else libs
        packages = sorted({str(name).partition(".")[0] for name in names} - sys.stdlib_module_names)
    except (SyntaxError, ValueError, TypeError) as error:
        raise RowError(f"libs is a list of modules, this is {libs!r:.80}") from error
    instruct = text_of(row, "instruct_prompt")
    return {
        "before": f"{row['code_prompt'].rstrip()}\n    pass\n",
        "solution": f"{row['complete_prompt'].rstrip()}\n{row.get('canonical_solution', '')}",
        "packages": packages,
        "asked": None if instruct is None else f"{instruct.strip()}\n{FENCE}",
        **_begun_function(row["complete_prompt"]),
    }


def mbpp(row: Row) -> Row:
    """MBPP, its sanitized split, and MBPP+, whose `test` holds hundreds of inputs."""
    solution, asserts = text_of(row, "code"), _texts_of(row, "test_list")
    problem = statement_of(row)
    return {
        "setup": text_of(row, "test_setup_code") or "\n".join(_texts_of(row, "test_imports")),
        "entry_point": _shadowing(solution or "", asserts) if "test" in row else None,
        "solution": solution,
        "asked": f"{problem}\nThe program must pass this test:\n{asserts[0]}\n{FENCE}" if problem and asserts else None,
        "begun": (_docstring("\n".join([problem, *asserts])), "") if problem else None,
    }


def leetcode(row: Row) -> Row:
    """LeetCodeDataset: `entry_point` is `Solution().name`, and `prompt` holds the imports and helpers of its judge."""
    name, starter = row["entry_point"].rpartition(".")[2], row["starter_code"].strip()
    problem = text_of(row, "problem_description") or text_of(row, "query") or ""
    return {
        "setup": row.get("prompt", ""),
        "before": f"{CONTEST_IMPORTS}{row.get('prompt', '')}\n",
        "entry_point": f"call_{name}",
        "after": adapter(name, "*arguments, **named"),
        "solution": row["completion"],
        "asked": f"{problem.strip()}\n\nGo on from this code:\n{starter}\n{FENCE}",
        "begun": (f"{_docstring(problem)}{starter}\n", f"{starter}\n"),
    }


def contest(row: Row) -> Row:
    """APPS, TACO, DeepCoder, LiveCodeBench: a statement, perhaps starter code, perhaps solutions as (JSON) list."""
    starter, problem = str(row.get("starter_code") or "").rstrip(), statement_of(row)
    begun = f"{starter}\n" if starter else ""
    how = "" if starter else "\n\nRead standard input and write standard output."
    solutions = json_value(row.get("solutions") or [], "solutions")
    return {
        "solution": str(solutions[0]) if isinstance(solutions, list) and solutions else row.get("canonical_solution"),
        "begun": (_docstring(f"{problem}{how}") + begun, begun) if problem else None,
    }


def codecontests(row: Row) -> Row:
    """CodeContests: solutions in several languages, of which Python 3 has a number or a name."""
    given = json_value(row.get("solutions") or {}, "solutions")
    columns = [given.get(name) for name in ("language", "solution")] if isinstance(given, dict) else []
    both = zip(*columns, strict=False) if all(isinstance(each, list) for each in columns) else ()
    in_python = [text for language, text in both if language in (3, "PYTHON3")]
    return contest({**row, "solutions": in_python})


class CodeSet(NamedTuple):
    """How the rows of one set, or several alike, are recognised and read."""

    tests: tuple[str, ...]
    """Columns of tests, of which a row has one at least."""
    adapt: Callable[[Row], Row]
    """Our columns for a row."""
    columns: tuple[str, ...] = ()
    """Columns of text that every row has besides."""


CODE_SETS = {
    "BigCodeBench": CodeSet(("test",), bigcodebench, ("complete_prompt", "code_prompt", "test", "entry_point")),
    "LeetCodeDataset": CodeSet(("test",), leetcode, ("starter_code", "completion", "test", "entry_point")),
    "HumanEval, HumanEval+": CodeSet(("test",), humaneval, ("prompt", "test", "entry_point")),
    "MBPP+": CodeSet(("test",), mbpp, ("test", "code")),
    "another test": CodeSet(("test",), contest),
    "MBPP": CodeSet(("test_list",), mbpp),
    "APPS, TACO": CodeSet(("input_output",), contest),
    "verl": CodeSet(("reward_model",), contest),
    "CodeContests": CodeSet(("public_tests", "private_tests", "generated_tests"), codecontests),
    "LiveCodeBench": CodeSet(("public_test_cases", "private_test_cases"), contest),
    "DeepCoder": CodeSet(("tests",), contest),
}
"""A row is read by the first that it fits."""
OURS = CodeSet((), contest)
"""Rows whose tests are in our own columns (AceCode's too)."""


def set_of(row: Row) -> CodeSet:
    """How a row is written."""
    fitting = (
        each
        for each in CODE_SETS.values()
        if any(name in row for name in each.tests) and all(isinstance(row.get(name), str) for name in each.columns)
    )
    return next(fitting, OURS)


def text_of(row: Row, name: str) -> str | None:
    """A column that holds text. Raises RowError where it holds something else."""
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise RowError(f"{name} is text, this is {value!r:.80}")
    return value


def _texts_of(row: Row, name: str) -> list[str]:
    """A column that holds a list of texts, the JSON of one, or one text. Raises RowError."""
    value = json_value(row.get(name, []), name)
    if not isinstance(value, list | str):
        raise RowError(f"{name} is a list of texts, this is {value!r:.80}")
    return [value] if isinstance(value, str) else [str(each) for each in value]


def statement_of(row: Row) -> str:
    """The problem as text; "" where no column of STATEMENTS holds text."""
    return next((row[name].strip() for name in STATEMENTS if isinstance(row.get(name), str)), "")


def ground_truth(reward_model: Any) -> Any:
    """The answer or the tests of a verl row, whose object may be a JSON text. Raises RowError when there is none."""
    value = json_value(reward_model, "reward_model")
    if not isinstance(value, dict) or value.get("ground_truth") is None:  # parquet fills keys with null
        raise RowError("reward_model has no ground_truth")
    return value["ground_truth"]


def unpacked(value: Any, column: str) -> Any:
    """LiveCodeBench's private tests: where they are no JSON, they are base64 of zlib of a pickle of one text, which is
    read without unpickling. Raises RowError where there is anything else in it."""
    if not isinstance(value, str) or value.strip()[:1] in ("", "["):
        return value
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(base64.b64decode(value, validate=True), _MOST_BYTES)
        codes = [(code.name, argument) for code, argument, _ in pickletools.genops(raw)] if stream.eof else []
    except (ValueError, zlib.error) as error:
        raise RowError(f"{column} is neither JSON nor base64 of a zlib-compressed pickle: {error}") from error
    if not stream.eof:
        raise RowError(f"{column} is cut off, or more than {_MOST_BYTES >> 20} MiB")
    held = [(name, argument) for name, argument in codes if name not in _FRAME_CODES]
    if len(held) != 1 or held[0][0] not in _TEXT_CODES:
        raise RowError(f"{column} is a pickle of something other than one text, which is not read")
    return held[0][1]


def _shadowing(solution: str, asserts: list[str]) -> str | None:
    """The function of an MBPP+ row that shadows a built-in, which its `test` would otherwise call."""
    defined = re.findall(r"^def +(\w+)", solution, re.MULTILINE)
    called = [name for name in defined if all(re.search(rf"\b{name}\(", each) for each in asserts)]
    return next((name for name in reversed(called) if hasattr(builtins, name)), None)


def _docstring(text: str) -> str:
    return '"""\n' + text.strip().replace('"""', "'''") + '\n"""\n'


def _begun_function(head: str) -> Row:
    """A function's head with its docstring, which the response continues."""
    begun = f"{head.rstrip()}\n"
    return {"begun": (begun, begun), "stops": AFTER_FUNCTIONS}
