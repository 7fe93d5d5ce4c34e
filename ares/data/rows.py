"""Rows of a data set: what each needs, what it holds, and what is wrong with it, for loading and for `ares data check`.

Covered: verl's rows; prompts as the chat template writes them; answers, and unit tests, whose formats ares/data/code.py
reads. Not covered: files (ares/data/sources.py), chat messages and templates (ares/data/chats.py), what becomes of rows
(ares/data/problems.py), whether unit tests can be passed (`ares data check`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
from transformers import PreTrainedTokenizerBase

from ares.config import DataConfig, Need, Needs
from ares.data.chats import conversation, rendered, tools_of
from ares.data.code import IDS, CodeProblem, NoTests, RowError, read_problem
from ares.data.code_sets import ground_truth
from ares.data.sources import DataError, is_missing
from ares.data.vision import in_parts, spoken
from rewards.math import why_ungradable

OPENING = "environment_opening"
"""Column of problems that an environment has begun, with JSON: the row as the environment is given it, its seed, the
digest of its first reply; of an agent also `template`, settings of the chat template that its prompt needs."""
SEVERAL_ANSWERS = (
    "the answer is a list, an object or bytes, and reward.kind=math compares with one: name another column "
    "(data.answer_key) or a function of your own (reward.kind=path.py:function)"
)
GRADER = "grader"
"""Column with the kind of reward that judges a row (reward.by_row)."""


@dataclass
class Row:
    """A row as it was read, and what is wrong with it."""

    line: int | str
    """As errors name it: the line of a jsonl file, else the row number from 1; with several files also the file."""
    position: int
    id: str
    asked: Any = None
    """The prompt as the row holds it: text, or a list of chat messages; None where it is missing."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """The prompt as chat messages; empty where it is wrong."""
    text: str = ""
    """The prompt as the chat template writes it."""
    answer: Any = None
    """As the row holds it, since a user's reward is given the object itself; of code the solution or ""."""
    problem: CodeProblem | None = None
    """A code row that can be used."""
    left_out: str = ""
    """Why the row is no problem, though nothing is wrong with the set, as without a test."""
    wrong: list[str] = field(default_factory=list)


def each_row(
    raw: pd.DataFrame, config: DataConfig, needs: Needs, vision: bool = False,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> Iterator[Row]:  # fmt: skip
    """Read every row. vision: prompts may show something. tokenizer: has a chat template that writes the prompts."""
    of_rows = needs_of_rows(raw, needs)
    ids = IDS if set(of_rows) == {"tests"} else ()
    for (row, values), need in zip(named_rows(raw, config, ids), of_rows, strict=True):
        if need is None:
            row.wrong.append(
                f"its grader is {values.get(GRADER)!r:.60}, and reward.kind has {', '.join(needs)}: name one in column "
                f"{GRADER!r}, or by the source's name in data.train"
            )
        elif need == "tests":
            _read_code(row, values, config)
        else:
            _read_answer(row, values, config, need)
        try:
            if row.asked is not None:
                row.messages = conversation(spoken(row.asked) if vision else row.asked, config)
            if row.messages and tokenizer is not None and not row.left_out:
                parts = in_parts(row.messages)[0] if vision else row.messages
                # An environment shows its own tools, an agent by itself.
                begun = values.get(OPENING)
                own = json.loads(begun).get("template", {}) if begun else tools_of(values, tokenizer)
                row.text = rendered(tokenizer, parts, config.chat_template_kwargs | own)
        except DataError as error:
            row.wrong.append(str(error))
        yield row


def named_rows(
    raw: pd.DataFrame, config: DataConfig, other_ids: Iterable[str] = ()
) -> Iterator[tuple[Row, dict[str, Any]]]:
    """Every row with its id, and its values. other_ids: columns that published sets name their problems in."""
    id_key = next((name for name in (config.id_key, *other_ids) if name in raw), None)
    first_of: dict[str, int] = {}
    records: list[dict[str, Any]] = raw.to_dict("records")  # type: ignore[assignment]
    for position, (line, values) in enumerate(zip(raw.index, records, strict=True)):
        name = position if id_key is None else values[id_key]
        row = Row(line, position, str(name))
        if is_missing(name):
            row.wrong.append(f"column {id_key!r} is missing or null")
        elif (first := first_of.setdefault(row.id, position)) != position:
            row.wrong.append(f"id {row.id!r} is a duplicate of row {raw.index[first]}")
        yield row, values


def needs_of_rows(raw: pd.DataFrame, needs: Needs) -> Sequence[Need | None]:
    """What each row needs; None where its grader is unknown."""
    if not isinstance(needs, dict):
        return [needs] * len(raw)
    return [needs.get(str(name)) for name in (raw[GRADER] if GRADER in raw else [""] * len(raw))]


def _read_code(row: Row, values: dict[str, Any], config: DataConfig) -> None:
    try:
        row.problem = read_problem(values, config)
    except NoTests as error:
        row.left_out = str(error)
    except RowError as error:
        row.wrong.append(str(error))
    else:
        row.asked, row.answer = row.problem.prompt, row.problem.solution or ""


def _read_answer(row: Row, values: dict[str, Any], config: DataConfig, needs: Need) -> None:
    row.asked = values[config.prompt_key]
    if is_missing(row.asked):
        row.wrong.append(_null(config, "prompt_key"))
        row.asked = None
    if is_prompt_only(values, config, needs):
        return
    try:
        of_verl = config.answer_key not in values
        row.answer = ground_truth(values["reward_model"]) if of_verl else values[config.answer_key]
    except RowError as error:
        row.wrong.append(str(error))
        return
    is_one = (
        isinstance(row.answer, list) and len(row.answer) == 1 and not isinstance(row.answer[0], dict | list | bytes)
    )
    several = isinstance(row.answer, dict | list | bytes) and not is_one
    if is_missing(row.answer):
        row.wrong.append(_null(config, "answer_key"))
    elif not row.answer.strip() if isinstance(row.answer, str) else row.answer in ([], {}):
        row.wrong.append("the answer is empty")
    elif needs == "answer" and several:
        row.wrong.append(SEVERAL_ANSWERS)
    elif needs == "answer":
        row.left_out = why_ungradable(row.answer)


def with_graders(raw: pd.DataFrame, needs: Needs, name: str) -> pd.DataFrame:
    """Rows with the kind of reward that judges each (reward.by_row): where they do not say, the name of their set."""
    return raw.assign(**{GRADER: name}) if isinstance(needs, dict) and GRADER not in raw else raw


def missing_columns(raw: pd.DataFrame, config: DataConfig, needs: Needs) -> list[str]:
    """What is wrong with the set as a whole: columns that no row has."""
    if isinstance(needs, dict):
        known = [need for need in dict.fromkeys(needs_of_rows(raw, needs)) if need is not None]
        return list(dict.fromkeys(what for need in known for what in missing_columns(raw, config, need)))
    keys = {} if needs == "tests" else {"prompt_key": config.prompt_key}
    if keys and not is_prompt_only(raw, config, needs) and "reward_model" not in raw:
        keys["answer_key"] = config.answer_key
    there = ", ".join(map(str, raw.columns))
    return [
        f"column {key!r} is missing (columns: {there}). Name it with data.{setting}=…"
        for setting, key in keys.items()
        if key not in raw
    ]


def _null(config: DataConfig, setting: str) -> str:
    return f"column {getattr(config, setting)!r} is missing or null. Name it with data.{setting}=…"


def is_prompt_only(columns: Iterable[Any], config: DataConfig, needs: Need) -> bool:
    """Whether rows have no answer and need none. A column that the settings name must exist."""
    default = DataConfig.model_fields["answer_key"].default
    return needs == "nothing" and config.answer_key == default and not {default, "reward_model"} & set(columns)
