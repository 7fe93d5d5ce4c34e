"""The suites of `ares eval --suite`: published sets of programming problems, where they lie and how they are judged.

Covered: the table (files, test split, limits, base tests, known failures). Not covered: finding the files
(ares/evaluation/suite_problems.py), how a set's rows are read and asked (ares/data/code_sets.py).

Sentences of prompts are ours; what they tell follows the harnesses that are named with each suite.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Form = Literal["instruct", "completion"]


@dataclass(frozen=True)
class Suite:
    """A published set: its files, and the limits it is judged within."""

    hub: str
    """Data set of the hub."""
    files: tuple[str, ...]
    """Its test split there: patterns of files."""
    names: tuple[str, ...] = ()
    """Names of the set as a file of its own."""
    tokens: int = 768
    """Tokens of a response (rollout.max_response_length)."""
    cpu_seconds: float = 10.0
    """CPU seconds of each test."""
    memory_mb: int = 4096
    """MiB of address space, as EvalPlus and LiveCodeBench have it."""
    id_key: str | None = None
    """Column of ids, if it is none of the usual ones."""
    task_ids: range | None = None
    """The ids of the test split, if the file holds more."""
    shows_all_tests: bool = False
    """Whether a prompt shows all tests, not only the first."""
    base: str | None = None
    """The suite whose tests these rows extend; base tests are judged too and reported separately."""
    base_tests: str | None = None
    """Column of the rows themselves that holds the base tests."""
    known_failures: Mapping[str, str] = field(default_factory=dict)
    """Problems whose own reference fails their tests, and why."""


SUITES: dict[str, Suite] = {
    # Liu et al. 2023 (arXiv 2305.01210), EvalPlus: 768 tokens, 4 GiB.
    "humaneval+": Suite(
        "evalplus/humanevalplus", ("data/test-*.parquet",), ("HumanEvalPlus.jsonl", "HumanEvalPlus-OriginFmt.jsonl"),
        cpu_seconds=20.0, base="humaneval",
        known_failures={"HumanEval/32": "one of its roots is less exact than its test asks"},
    ),
    "mbpp+": Suite(
        "evalplus/mbppplus", ("data/test-*.parquet",), ("MbppPlus.jsonl", "MbppPlus-OriginFmt.jsonl"),
        cpu_seconds=20.0, base_tests="test_list",
    ),
    # Chen et al. 2021 (arXiv 2107.03374).
    "humaneval": Suite("openai/openai_humaneval", ("openai_humaneval/test-*.parquet",), ("HumanEval.jsonl",)),
    # Austin et al. 2021 (arXiv 2108.07732): tasks 11 to 510 are the test split; the prompt is the text and three tests.
    "mbpp": Suite(
        "google-research-datasets/mbpp", ("full/test-*.parquet",), ("mbpp.jsonl",),
        shows_all_tests=True, task_ids=range(11, 511),
    ),
    # Jain et al. 2024 (arXiv 2403.07974): 2000 tokens, 6 seconds.
    "livecodebench": Suite(
        "livecodebench/code_generation_lite", ("test*.jsonl",), ("livecodebench.jsonl",), tokens=2000, cpu_seconds=6.0,
    ),
    # Hendrycks et al. 2021 (arXiv 2105.09938): 4 seconds.
    "apps": Suite("codeparrot/apps", ("test.jsonl",), ("apps.jsonl",), tokens=1024, cpu_seconds=4.0),
    # Li et al. 2023 (arXiv 2312.14852), judged as APPS is.
    "taco": Suite("BAAI/TACO", ("test/*.arrow",), ("taco.jsonl",), tokens=1024, cpu_seconds=4.0),
    # Li et al. 2022 (arXiv 2203.07814).
    "codecontests": Suite(
        "deepmind/code_contests", ("data/test-*.parquet",), ("code_contests.jsonl",), tokens=2048, id_key="name",
    ),
    # Zhuo et al. 2024 (arXiv 2406.15877): 1280 tokens.
    "bigcodebench": Suite(
        "bigcode/bigcodebench", ("data/v0.1.4-*.parquet",), ("BigCodeBench.jsonl", "BigCodeBench-v0.1.4.jsonl"),
        tokens=1280, cpu_seconds=30.0,
    ),
}  # fmt: skip
"""Every suite by the name that --suite takes."""
OWN = Suite("", (), tokens=1024)
"""A set of the user's own (--suite PATH), of any format that rows are read in."""
