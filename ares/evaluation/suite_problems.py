"""A suite's rows as problems: asked in one of the two forms, with the base tests of a set that extends another.

Covered: which form a tokenizer gets, prompts as tokens, base tests before those that were added, rows that cannot be
asked. Not covered: where the files lie (ares/evaluation/places.py), reading tests (ares/data/code.py), what a response
is worth.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
from transformers import PreTrainedTokenizerBase

from ares.config import DataConfig, Source, location
from ares.data import (
    ASKED,
    CodeProblem,
    DataError,
    Problems,
    RowError,
    check_template,
    conversation,
    ids_of,
    place,
    read_problem,
    read_rows,
    rendered,
    shown,
    with_unit_tests,
)
from ares.evaluation.places import files_of, suite_of
from ares.evaluation.suites import SUITES, Form, Row, Suite

SPLIT = "test"
"""Split of a folder or data set that --suite names."""
BASE_TESTS = "base_tests"
"""Column: how many of a row's tests, from the first, belong to the set that it extends."""


@dataclass(frozen=True)
class SuiteProblems:
    """A suite, ready to be asked."""

    problems: Problems
    form: Form
    base: str | None
    """Where the base tests come from, or why there are none; None: the suite extends no other."""
    left_out: dict[str, str]
    """Ids of rows that cannot be asked, as one without tests, and why."""

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return max(map(len, self.problems.frame["prompt_token_ids"]))


def load_suite(
    name: str, data: str | None, form: Form | None, config: DataConfig, tokenizer: PreTrainedTokenizerBase,
    limit: int | None,
) -> SuiteProblems:  # fmt: skip
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
    read, unusable = _read(raw)
    names = dict(zip(raw.index, ids_of(raw, columns, True, source), strict=True))
    if not read:
        line, why = next(iter(unusable.items()))
        raise DataError(f"{place(source, line)}: {why}")
    raw, problems, ids = raw.loc[list(read)], list(read.values()), [names[line] for line in read]
    base_tests, base = _base_tests(suite, data, raw, ids)
    problems = [
        replace(each, test_cases=[*first, *each.test_cases], packages=tuple(sorted({*each.packages, *suite.packages})))
        for each, first in zip(problems, base_tests, strict=True)
    ]
    if form == "completion":
        prompts = _begun(suite, raw, source)
    else:
        prompts = _instructed(suite, raw, problems, columns, tokenizer, source)
    frame = with_unit_tests(prompts, problems, columns.tests_key).assign(
        id=ids,
        answer=[problem.solution or "" for problem in problems],
        # A chat template writes the token with which texts begin; here the tokenizer does, where it has one.
        prompt_token_ids=tokenizer(prompts["prompt"].tolist(), add_special_tokens=form == "completion", verbose=False)[
            "input_ids"
        ],
    )
    if any(base_tests):
        frame[BASE_TESTS] = [len(tests) for tests in base_tests]
    problems_of_suite = Problems(shown(source), frame.reset_index(drop=True), 0, repeated=(ASKED,))
    return SuiteProblems(problems_of_suite, form, base, {names[line]: why for line, why in unusable.items()})


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


def _records(raw: pd.DataFrame) -> list[Row]:
    return raw.to_dict("records")  # type: ignore[return-value]


def _read(raw: pd.DataFrame) -> tuple[dict[Any, CodeProblem], dict[Any, str]]:
    """The problem of each usable row, and what is wrong with the others, both by line."""
    problems: dict[Any, CodeProblem] = {}
    unusable: dict[Any, str] = {}
    for line, row in zip(raw.index, _records(raw), strict=True):
        try:
            problems[line] = read_problem(row, "prompt", "test_cases", "answer")
        except RowError as error:
            unusable[line] = str(error)
    return problems, unusable


def _base_tests(
    suite: Suite, data: str | None, raw: pd.DataFrame, ids: list[str]
) -> tuple[list[list[str]], str | None]:
    """For each row the tests of the set that it extends, and where they come from, or why there are none.

    A row's own test repeats the base ones within one loop over hundreds of inputs, so only the base set's own tests
    tell them apart.
    """
    none: list[list[str]] = [[] for _ in ids]
    if suite.base_tests is not None:
        first, unusable = _read(raw.drop(columns=["test"], errors="ignore"))
        if unusable:
            return none, f"no base tests: {len(unusable)} of these problems have none in column {suite.base_tests}"
        return [first[line].test_cases for line in raw.index], f"column {suite.base_tests}"
    if suite.base is None:
        return none, None
    try:
        source = _base_files(suite.base, data)
        of_base = _rows(suite.base, SUITES[suite.base], source, None)
        names = ids_of(of_base, DataConfig(train=suite.base), True, source)
    except DataError as error:
        return none, f"no base tests: {error}"
    names_of = dict(zip(of_base.index, names, strict=True))
    tests = {names_of[line]: each for line, each in _read(of_base)[0].items()}
    if absent := [name for name in ids if name not in tests]:
        return none, f"no base tests: {shown(source)} lacks {len(absent)} of these problems, as {absent[0]}"
    return [tests[name].test_cases for name in ids], shown(source)


def _base_files(base: str, data: str | None) -> Source:
    """Files of a base set: beside those that --data names, else wherever suites are looked for."""
    if data is not None:
        path = Path(location(data))
        with suppress(DataError):
            return files_of(base, str(path.parent if path.is_file() else path))
    return files_of(base, None)


def _begun(suite: Suite, raw: pd.DataFrame, source: Source) -> pd.DataFrame:
    """Completion form: the prompt, the part of it that begins the program, and the stop strings."""
    begun = []
    for line, row in zip(raw.index, _records(raw), strict=True):
        try:
            begun.append(suite.begun(row))
        except LookupError as error:
            raise DataError(f"{place(source, line)}: --form completion: {error.args[0]}") from error
    texts = [each.text for each in begun]
    return pd.DataFrame(
        {
            ASKED: texts,
            "prompt": texts,
            "begun": [each.program for each in begun],
            "stops": [list(suite.stops) for _ in begun],
        },
        index=raw.index,
    )


def _instructed(
    suite: Suite, raw: pd.DataFrame, problems: list[CodeProblem], columns: DataConfig,
    tokenizer: PreTrainedTokenizerBase, source: Source,
) -> pd.DataFrame:  # fmt: skip
    """Instruct form: the prompt, and its text after the chat template."""
    check_template(tokenizer, columns.chat_template_kwargs)
    asked: list[Any] = [problem.prompt for problem in problems]
    if suite.instruct is not None:
        asked = [suite.instruct(row) for row in _records(raw)]
    lines = [place(source, row) for row in raw.index]
    texts = [
        rendered(tokenizer, conversation(each, columns, line), line, columns.chat_template_kwargs)
        for each, line in zip(asked, lines, strict=True)
    ]
    return pd.DataFrame({ASKED: pd.Series(asked, index=raw.index, dtype=object), "prompt": texts}, index=raw.index)
