"""A suite's rows as problems: asked in one of the two forms, with the base tests of a set that extends another.

Covered: which form a tokenizer gets, prompts as tokens, base tests before those that were added, rows that cannot be
asked. Not covered: where the files lie (ares/evaluation/places.py), reading rows (ares/data), what a response is worth.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from transformers import PreTrainedTokenizerBase

from ares.config import DataConfig, Source
from ares.data import (
    ASKED,
    FENCE,
    STATEMENTS,
    CodeProblem,
    DataError,
    Problems,
    Row,
    conversation,
    each_row,
    place,
    read_rows,
    shown,
    templated,
    with_unit_tests,
)
from ares.evaluation.places import base_files_of, files_of, suite_of
from ares.evaluation.suites import SUITES, Form, Suite

SPLIT = "test"
"""Split of a folder or data set that --suite names."""
BASE_TESTS = "base_tests"
"""Column: how many of a row's tests, from the first, belong to the set that it extends."""


@dataclass(frozen=True)
class EvaluationProblems:
    """Problems, ready to be asked, and what is to be said of them."""

    problems: Problems
    left_out: dict[str, str]
    """Ids of unusable rows, as those without tests, and why."""
    sets: list[str] = field(default_factory=list)
    """Names of held-out sets, if they have any."""
    suite: dict[str, Any] = field(default_factory=dict)
    """A suite's name and the form of its prompts; empty for problems of no suite."""
    base: str | None = None
    """Where a suite's base tests come from, or why it has none; None: it extends no other."""

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(map(len, self.problems.frame["prompt_token_ids"]))


def load_suite(
    name: str, data: str | None, form: Form | None, config: DataConfig, tokenizer: PreTrainedTokenizerBase,
    limit: int | None,
) -> EvaluationProblems:  # fmt: skip
    """The first `limit` rows of a suite as problems. Raises DataError if it is not found, or no row is usable.

    data: a file or folder that holds it. form: None for the one that fits the tokenizer. config: whose system prompt
    and template settings are used; columns are the suite's.
    """
    suite, source = suite_of(name), files_of(name, data)
    form = form or ("instruct" if tokenizer.chat_template else "completion")
    columns = DataConfig(train=name, system_prompt=config.system_prompt,
                         chat_template_kwargs=config.chat_template_kwargs)  # fmt: skip
    if suite.id_key is not None:
        columns = columns.model_copy(update={"id_key": suite.id_key})
    raw = _rows(name, suite, source, limit)
    read = _read(raw, columns)
    rows = [row for row in read if row.problem and not row.wrong]
    if not rows:
        raise DataError(f"{place(source, read[0].line)}: {_unusable(read[0])}")
    base_tests, base = _base_tests(suite, data, raw, rows)
    problems = [
        replace(each, test_cases=[*first, *each.test_cases], packages=tuple(sorted({*each.packages, *suite.packages})))
        for each, first in zip(_problems(rows), base_tests, strict=True)
    ]
    lines = [place(source, row.line) for row in rows]
    if form == "completion":
        prompts = _begin(problems, lines)
    else:
        asked = [_with_all_tests(each) if suite.shows_all_tests else each.prompt for each in problems]
        conversations = [conversation(each, columns) for each in asked]
        prompts = {ASKED: asked, "prompt": templated(tokenizer, conversations, lines, columns)}
    frame = with_unit_tests(pd.DataFrame(prompts, dtype=object), problems, columns.tests_key).assign(
        id=[row.id for row in rows],
        answer=[problem.solution or "" for problem in problems],
        # A chat template writes the token with which texts begin; here the tokenizer does, where it has one.
        prompt_token_ids=tokenizer(prompts["prompt"], add_special_tokens=form == "completion", verbose=False)[
            "input_ids"
        ],
    )
    if any(base_tests):
        frame[BASE_TESTS] = [len(tests) for tests in base_tests]
    left_out = {row.id: _unusable(row) for row in read if row not in rows}
    problems_of_suite = Problems(shown(source), frame, 0, repeated=(ASKED,))
    return EvaluationProblems(problems_of_suite, left_out, suite={"suite": name, "form": form}, base=base)


def _rows(name: str, suite: Suite, source: Source, limit: int | None) -> pd.DataFrame:
    """The rows of the test split as they are."""
    raw = read_rows(source, SPLIT, limit=limit if suite.task_ids is None else None)
    if suite.task_ids is None:
        return raw
    if "task_id" not in raw:
        raise DataError(f"{shown(source)}: column 'task_id' is missing: it tells which rows are {name}'s test split")
    kept = raw[raw["task_id"].isin(suite.task_ids)].head(limit if limit is not None else len(raw))
    if kept.empty:
        raise DataError(f"{shown(source)}: no row of {name}'s test split (task_id {suite.task_ids.start} and on)")
    return kept


def _read(raw: pd.DataFrame, columns: DataConfig) -> list[Row]:
    return list(each_row(raw, columns, "tests", "data", vision=False))


def _unusable(row: Row) -> str:
    return row.left_out or row.wrong[0]


def _problems(rows: list[Row]) -> list[CodeProblem]:
    return [row.problem for row in rows if row.problem]


def _base_tests(
    suite: Suite, data: str | None, raw: pd.DataFrame, rows: list[Row]
) -> tuple[list[list[str]], str | None]:
    """For each row the tests of the set that it extends, and where they come from, or why there are none.

    A row's own test repeats the base ones within one loop over hundreds of inputs, so only the base set's own tests
    tell them apart.
    """
    none: list[list[str]] = [[] for _ in rows]
    if suite.base_tests is not None:
        tests_of: list[Any] = raw[suite.base_tests].tolist() if suite.base_tests in raw else [None] * len(raw)
        if absent := [row.id for row in rows if not tests_of[row.position]]:
            return none, f"no base tests: {len(absent)} of these problems have none in column {suite.base_tests}"
        return [list(tests_of[row.position]) for row in rows], f"column {suite.base_tests}"
    if suite.base is None:
        return none, None
    try:
        source = base_files_of(suite.base, data)
        of_base = _read(_rows(suite.base, SUITES[suite.base], source, None), DataConfig(train=suite.base))
    except DataError as error:
        return none, f"no base tests: {error}"
    tests = {row.id: row.problem.test_cases for row in of_base if row.problem}
    if absent := [row.id for row in rows if row.id not in tests]:
        return none, f"no base tests: {shown(source)} lacks {len(absent)} of these problems, as {absent[0]}"
    return [tests[row.id] for row in rows], shown(source)


def _with_all_tests(problem: CodeProblem) -> str:
    tests = "\n".join(problem.test_cases)
    return f"{problem.statement.strip()}\nThe program must pass these tests:\n{tests}\n{FENCE}"


def _begin(problems: list[CodeProblem], lines: list[str]) -> dict[str, list[Any]]:
    """Completion form: the prompt, the part of it that begins the program, and the stop strings."""
    for line, problem in zip(lines, problems, strict=True):
        if problem.begun is None:
            raise DataError(f"{line}: --form completion: no text states the problem (columns looked for: "
                            f"{', '.join(STATEMENTS)})")  # fmt: skip
    texts, programs = zip(*(problem.begun or ("", "") for problem in problems), strict=True)
    stops = [list(problem.stops) for problem in problems]
    return {ASKED: list(texts), "prompt": list(texts), "begun": list(programs), "stops": stops}
