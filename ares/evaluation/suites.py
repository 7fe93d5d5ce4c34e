"""The suites of `ares eval --suite`: published sets of programming problems, how each is asked and how it is judged.

Covered: the table (where a set lies, its test split, limits, known failures), the two forms of a prompt: `instruct` for
chat models, `completion` for base models, whose response continues a text and ends at a stop string. Not covered:
finding the files (ares/evaluation/places.py), rows as problems (ares/evaluation/suite_problems.py), what rows of each
format hold (ares/data/code.py).

Sentences of prompts are ours; what they tell follows the harnesses that are named with each suite.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ares.config import nearest

Form = Literal["instruct", "completion"]
Row = Mapping[str, Any]
FENCE = "Answer with the whole program in one ```python block."
STATEMENT = ("question_content", "question", "description", "text", "problem", "instruct_prompt", "prompt")
"""Columns in which the sets state a problem."""
OF_FUNCTIONS = ("\nclass ", "\ndef ", "\n#", "\nif ", "\nprint", "\n@", "\n```")
"""Stop strings after a function's body: Chen et al. 2021 (arXiv 2107.03374, section 2.1), a decorator, a fence."""
OF_PROGRAMS = ('\n"""', "\nassert ", "\n```")
"""Stop strings after a whole program that a docstring asked for, after bigcode-evaluation-harness."""


@dataclass(frozen=True)
class CompletionPrompt:
    """A completion form: the text that a response continues, and the part of it that belongs to the program."""

    text: str
    program: str = ""


@dataclass(frozen=True)
class Suite:
    """A published set: its files, its prompts, the limits it is judged within."""

    hub: str
    """Data set of the hub."""
    files: tuple[str, ...]
    """Its test split there: patterns of files."""
    names: tuple[str, ...] = ()
    """Names of the set as a file of its own."""
    begun: Callable[[Row], CompletionPrompt] = field(kw_only=True)
    """The completion form of a row."""
    instruct: Callable[[Row], str] | None = None
    """The instruct form of a row. None: the one with which rows of its format are trained on."""
    stops: tuple[str, ...] = OF_PROGRAMS
    """Where a completion ends."""
    tokens: int = 768
    """Tokens of a response (rollout.max_response_length)."""
    cpu_seconds: float = 10.0
    """CPU seconds of each test."""
    memory_mb: int = 4096
    """MiB of address space, as EvalPlus and LiveCodeBench have it."""
    packages: tuple[str, ...] = ()
    """Modules that tests import; rows name more."""
    id_key: str | None = None
    """Column of ids, if it is none of the usual ones."""
    task_ids: range | None = None
    """The ids of the test split, if the file holds more."""
    base: str | None = None
    """The suite whose tests these rows extend; base tests are judged too and reported separately."""
    base_tests: str | None = None
    """Column of the rows themselves that holds the base tests."""
    known_failures: Mapping[str, str] = field(default_factory=dict)
    """Problems whose own reference fails their tests, and why."""


def _head(column: str) -> Callable[[Row], CompletionPrompt]:
    """A function's head with its docstring, which the response continues."""

    def begun(row: Row) -> CompletionPrompt:
        text = f"{str(row[column]).rstrip()}\n"
        return CompletionPrompt(text, text)

    return begun


def _docstring(text: str) -> str:
    return '"""\n' + text.strip().replace('"""', "'''") + '\n"""\n'


def _described(row: Row) -> CompletionPrompt:
    """MBPP: a docstring with the text and its tests; the response is the whole program."""
    return CompletionPrompt(_docstring(f"{_statement(row)}\n" + "\n".join(map(str, row["test_list"]))))


def _contest(row: Row) -> CompletionPrompt:
    """A docstring with the statement; the response continues the starter code, or is the whole program."""
    starter = str(row.get("starter_code") or "").rstrip()
    how = "" if starter else "\n\nRead standard input and write standard output."
    begun = f"{starter}\n" if starter else ""
    return CompletionPrompt(_docstring(f"{_statement(row)}{how}") + begun, begun)


def _statement(row: Row) -> str:
    """Raises LookupError where no column states the problem as text."""
    stated = next((row[name] for name in STATEMENT if isinstance(row.get(name), str)), None)
    if stated is None:
        raise LookupError(f"no text states the problem (columns looked for: {', '.join(STATEMENT)})")
    return str(stated).strip()


def _any(row: Row) -> CompletionPrompt:
    """A set of the user's: HumanEval's heads, else the problem in a docstring."""
    return _head("prompt")(row) if row.get("entry_point") and "test" in row else _contest(row)


def _mbpp(row: Row) -> str:
    """Austin et al. 2021: the text and its three tests."""
    tests = "\n".join(map(str, row["test_list"]))
    return f"{_statement(row)}\nThe program must pass these tests:\n{tests}\n{FENCE}"


def _bigcodebench(row: Row) -> str:
    return f"{str(row['instruct_prompt']).rstrip()}\n{FENCE}"


SUITES: dict[str, Suite] = {
    # Liu et al. 2023 (arXiv 2305.01210), EvalPlus: 768 tokens, 4 GiB; numpy compares floats.
    "humaneval+": Suite(
        "evalplus/humanevalplus", ("data/test-*.parquet",), ("HumanEvalPlus.jsonl", "HumanEvalPlus-OriginFmt.jsonl"),
        begun=_head("prompt"), stops=OF_FUNCTIONS, cpu_seconds=20.0, packages=("numpy",), base="humaneval",
        known_failures={"HumanEval/32": "one of its roots is less exact than its test asks"},
    ),
    "mbpp+": Suite(
        "evalplus/mbppplus", ("data/test-*.parquet",), ("MbppPlus.jsonl", "MbppPlus-OriginFmt.jsonl"),
        begun=_described, cpu_seconds=20.0, packages=("numpy",), base_tests="test_list",
    ),
    # Chen et al. 2021 (arXiv 2107.03374).
    "humaneval": Suite(
        "openai/openai_humaneval", ("openai_humaneval/test-*.parquet",), ("HumanEval.jsonl",),
        begun=_head("prompt"), stops=OF_FUNCTIONS,
    ),
    # Austin et al. 2021 (arXiv 2108.07732): tasks 11 to 510 are the test split.
    "mbpp": Suite(
        "google-research-datasets/mbpp", ("full/test-*.parquet",), ("mbpp.jsonl",),
        begun=_described, instruct=_mbpp, task_ids=range(11, 511),
    ),
    # Jain et al. 2024 (arXiv 2403.07974): 2000 tokens, 6 seconds.
    "livecodebench": Suite(
        "livecodebench/code_generation_lite", ("test*.jsonl",), ("livecodebench.jsonl",),
        begun=_contest, tokens=2000, cpu_seconds=6.0,
    ),
    # Hendrycks et al. 2021 (arXiv 2105.09938): 4 seconds.
    "apps": Suite(
        "codeparrot/apps", ("test.jsonl",), ("apps.jsonl",), begun=_contest, tokens=1024, cpu_seconds=4.0,
    ),
    # Li et al. 2023 (arXiv 2312.14852), judged as APPS is.
    "taco": Suite("BAAI/TACO", ("test/*.arrow",), ("taco.jsonl",), begun=_contest, tokens=1024, cpu_seconds=4.0),
    # Li et al. 2022 (arXiv 2203.07814).
    "codecontests": Suite(
        "deepmind/code_contests", ("data/test-*.parquet",), ("code_contests.jsonl",),
        begun=_contest, tokens=2048, id_key="name",
    ),
    # Zhuo et al. 2024 (arXiv 2406.15877): 1280 tokens.
    "bigcodebench": Suite(
        "bigcode/bigcodebench", ("data/v0.1.4-*.parquet",), ("BigCodeBench.jsonl", "BigCodeBench-v0.1.4.jsonl"),
        begun=_head("complete_prompt"), instruct=_bigcodebench, stops=OF_FUNCTIONS, tokens=1280, cpu_seconds=30.0,
    ),
}  # fmt: skip
"""Every suite by the name that --suite takes."""
OWN = Suite("", (), begun=_any, tokens=1024)
"""A set of the user's own (--suite PATH), of any format that rows are read in."""


def unknown_suite(name: str) -> str:
    """The message for a name that is neither a suite nor a path."""
    return f"--suite {name}: neither a suite nor a file or folder ({nearest(name, SUITES)})"
