"""A suite's rows as problems: asked in one of the two forms, with the base tests of a set that extends another.

Covered: finding the files (in --data, else ARES_TEST_DATA, the Hugging Face cache and the hub), which form a tokenizer
gets, base tests before those that were added, rows that cannot be asked. Not covered: reading and tokenising rows
(ares/data), what a response is worth.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from huggingface_hub import snapshot_download
from transformers import PreTrainedTokenizerBase

from algorithms.settings import MOST_TOKENS
from ares.config import DataConfig, Source, location, nearest
from ares.data import (
    FENCE,
    STATEMENTS,
    CodeProblem,
    DataError,
    Problems,
    Row,
    as_problems,
    check_template,
    conversation,
    each_row,
    place,
    read_rows,
    rendered,
    shown,
)
from ares.evaluation.suites import OWN, SUITES, Form, Suite

FOLDER = "ARES_TEST_DATA"
"""Environment variable: a folder with a folder for each suite."""
SPLIT = "test"
"""Split of a folder or data set that --suite names."""
BASE_TESTS = "base_tests"
"""Column: how many of a row's tests, from the first, belong to the set that it extends."""


class SuiteProblems(NamedTuple):
    """A suite's problems, ready to be asked."""

    problems: Problems
    form: Form
    base: str | None
    """Where the base tests come from, or why there are none; None: the suite extends no other."""


def load_suite(
    name: str, data: str | None, form: Form | None, config: DataConfig, tokenizer: PreTrainedTokenizerBase,
    limit: int | None,
) -> SuiteProblems:  # fmt: skip
    """The first `limit` rows of a suite as problems. Raises DataError if it is not found, or no row is usable.

    data: a file or folder that holds it. form: None for the one that fits the tokenizer. config: whose system prompt
    and template settings are used; its columns are not. No prompt is left out as overlong.
    """
    suite, source = suite_of(name), files_of(name, data)
    form = form or ("instruct" if tokenizer.chat_template else "completion")
    columns = DataConfig(
        train=name, id_key=suite.id_key or "id", system_prompt=config.system_prompt,
        chat_template_kwargs=config.chat_template_kwargs, max_prompt_length=MOST_TOKENS,
    )  # fmt: skip
    if form == "instruct":
        check_template(tokenizer, columns.chat_template_kwargs)
    raw = _rows(name, suite, source, limit)
    rows = _read(raw, columns)
    usable = {row.id: (row, row.problem) for row in rows if row.problem and not row.left_out}
    base_tests, base = _base_tests(suite, raw, [row for row, _ in usable.values()])
    for row, problem in usable.values():
        row.problem = replace(problem, test_cases=[*base_tests.get(row.id, ()), *problem.test_cases])
        try:
            row.asked = row.text = _asked(problem, form, suite)
            if form == "instruct":
                row.text = rendered(tokenizer, conversation(row.asked, columns), columns.chat_template_kwargs)
        except DataError as error:
            raise DataError(f"{place(source, row.line)}: {error}") from error
    # A chat template writes the token with which texts begin; for a completion the tokenizer does, where it has one.
    found = as_problems(raw.iloc[:, :0], rows, source, columns, tokenizer, adds_special_tokens=form == "completion")
    frame = found.frame
    if form == "completion":
        ends = {tokenizer.eos_token_id, tokenizer.sep_token_id}  # some tokenizers write one after every text
        frame["prompt_token_ids"] = [ids[: -1 if ids[-1] in ends else None] for ids in frame["prompt_token_ids"]]
        asked = [usable[each][1] for each in frame["id"]]
        frame["begun"] = [problem.begun[1] for problem in asked if problem.begun]
        frame["stops"] = [list(problem.stops) for problem in asked]
    if base_tests:
        frame[BASE_TESTS] = [len(base_tests[each]) for each in frame["id"]]
    return SuiteProblems(found, form, base)


def _rows(name: str, suite: Suite, source: Source, limit: int | None) -> pd.DataFrame:
    """The rows of the test split as they are."""
    if suite.task_ids is None:
        return read_rows(source, SPLIT, limit=limit)
    raw = read_rows(source, SPLIT)
    kept = raw[raw["task_id"].isin(suite.task_ids)] if "task_id" in raw else raw[:0]
    if kept.empty:
        raise DataError(f"{shown(source)}: no row of {name}'s test split (task_id {suite.task_ids.start} and on)")
    return kept.head(limit or len(kept))


def _read(raw: pd.DataFrame, columns: DataConfig) -> list[Row]:
    """Every row; of a published set one that is wrong is left out."""
    rows = list(each_row(raw, columns, "tests"))
    for row in rows:
        row.left_out = row.left_out or next(iter(row.wrong), "")
    return rows


def _base_tests(suite: Suite, raw: pd.DataFrame, rows: list[Row]) -> tuple[dict[str, list[str]], str | None]:
    """By id the tests of the set that the rows extend, and where they come from, or why there are none.

    A row's own test repeats the base ones within one loop over hundreds of inputs, so only the base set's own tests
    tell them apart.
    """
    if suite.base_tests is not None:
        where = f"column {suite.base_tests}"
        of_rows = raw.get(suite.base_tests, pd.Series(index=raw.index, dtype=object)).tolist()
        tests: dict[str, Any] = {row.id: of_rows[row.position] for row in rows}
    elif suite.base is not None:
        try:
            source = files_of(suite.base, None)
            of_base = _read(_rows(suite.base, SUITES[suite.base], source, None), DataConfig(train=suite.base))
        except DataError as error:
            return {}, f"no base tests: {error}"
        where, tests = shown(source), {row.id: row.problem.test_cases for row in of_base if row.problem}
    else:
        return {}, None
    if absent := [row.id for row in rows if not tests.get(row.id)]:
        return {}, f"no base tests: {where} lacks {len(absent)} of these problems, as {absent[0]}"
    return tests, where


def _asked(problem: CodeProblem, form: Form, suite: Suite) -> Any:
    """What a model is asked: text or chat messages; for a base model the text that it continues."""
    if form == "completion":
        if problem.begun is None:
            columns = ", ".join(STATEMENTS)
            raise DataError(f"--form completion: no text states the problem (columns looked for: {columns})")
        return problem.begun[0]
    if not suite.shows_all_tests:
        return problem.prompt
    tests = "\n".join(problem.test_cases)
    return f"{problem.statement.strip()}\nThe program must pass these tests:\n{tests}\n{FENCE}"


# ---- where the files lie --------------------------------------------------------------------------------------------


def suite_of(name: str) -> Suite:
    """The suite of a name; a path's is `OWN`. Raises DataError."""
    if name in SUITES:
        return SUITES[name]
    if not os.path.exists(location(name)):
        raise DataError(f"--suite {name}: neither a suite nor a file or folder ({nearest(name, SUITES)})")
    return OWN


def files_of(name: str, data: str | None) -> list[str]:
    """The files of a suite, or the path itself. Raises DataError saying what is missing and how to get it.

    data: a file, or a folder that holds the set; None: it is in the folder FOLDER, the Hugging Face cache or the hub.
    """
    suite = suite_of(name)
    if suite is OWN:
        return [name]
    where, files, folder = f"in {data or suite.hub}", [], data or os.environ.get(FOLDER)
    if folder:
        path = Path(location(folder))
        files = [str(path)] if path.is_file() else _in_folder(name, suite, path)
    if data is None and not files:
        try:
            found = snapshot_download(suite.hub, repo_type="dataset", allow_patterns=list(suite.files))
            files = _matching(Path(found), suite.files)
        except OSError as error:
            files, where = [], f"on the hub: {' '.join(str(error).split())}"
    if files:
        return files
    includes = " ".join(f"--include '{pattern}'" for pattern in suite.files)
    raise DataError(
        f"--suite {name}: no {' or '.join([*suite.names, *suite.files])} {where}. Get it: HF_HUB_OFFLINE=0 hf "
        f"download {suite.hub} --repo-type dataset {includes}; or name a file or folder that holds it with --data"
    )


def _in_folder(name: str, suite: Suite, folder: Path) -> list[str]:
    """Files under the suite's own names, here or in a folder of the suite's, else under the hub's names."""
    own = [folder / name, folder / suite.hub.rpartition("/")[2]]
    packed = [pattern for each in suite.names for pattern in (each, f"{each}.gz")]
    found = [_matching(place, packed)[:1] for place in (folder, *own)]
    found += [_matching(place, suite.files) for place in (*own, folder)]
    return next(filter(None, found), [])


def _matching(folder: Path, patterns: Sequence[str]) -> list[str]:
    return [str(path) for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
