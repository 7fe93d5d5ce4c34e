"""Check every row of a data set and report everything that is wrong with it.

Covered: what loading would refuse (ares/data/problems.py), for all rows and not only the first; tests that do not
parse; duplicate prompts; sizes; prompts that are held out too. Not covered: running programs (ares/data/trials.py),
whether the answers of a math set are right, images (loading reads them), rendered prompts (ares/data/as_seen.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from ares.config import DataConfig, Needs, Source
from ares.data.as_seen import SeenPrompt, see, spoken_of
from ares.data.chats import conversation
from ares.data.code import CodeProblem, read_problem
from ares.data.code_sets import ground_truth
from ares.data.code_tests import NoTests, RowError
from ares.data.problems import id_column, is_empty, is_one_answer, is_prompt_only
from ares.data.shared import overlaps, shared_prompts
from ares.data.sources import place, read_rows, shown
from ares.data.tables import DataError, Unreadable, is_missing
from ares.data.vision import spoken
from sandbox import parse

SEVERAL_ANSWERS = (
    "the answer is a list or an object, and reward.kind=math compares with one: name another column with "
    "data.answer_key=…, or a function of your own with reward.kind=path.py:function"
)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with one row."""

    row: int | str
    """As errors name rows: the line of a jsonl file, else the row number from 1; with several files also the file.
    0: the whole set."""
    id: str
    what: str


@dataclass(frozen=True)
class Failure:
    """A reference solution that fails its own tests."""

    row: int | str
    id: str
    error_type: str
    test: str
    """First line of the first test that fails."""
    detail: str


@dataclass
class CheckReport:
    """The result of checking a data set."""

    source: str
    rows: int
    findings: list[Finding] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    accepted: int = 0
    """Reference solutions that pass."""
    slow: list[str] = field(default_factory=list)
    """Ids of accepted solutions with a test that takes longer than training allows (reward.code.cpu_seconds or the
    row's own limit)."""
    untrusted: int = 0
    """Solutions whose tests compare the program's own objects, and so must run in its process."""
    problems: dict[int | str, tuple[str, CodeProblem]] = field(default_factory=dict)
    """Code problems that can be used: row → (id, problem)."""
    duplicate_prompts: list[str] = field(default_factory=list)
    """`row 7 repeats row 3`: allowed, but rarely intended."""
    prompt_tokens: list[int] = field(default_factory=list)
    """Lengths after the chat template (of a large set, a sample); empty without a tokenizer."""
    overlong: set[int | str] = field(default_factory=set)
    """Rows that are left out."""
    untested: dict[str, str] = field(default_factory=dict)
    """Code rows left out because they have no test: `3 (Mbpp/7)`, and which columns were looked for."""
    prompts: dict[int | str, str] = field(default_factory=dict)
    """Row → its prompt as text, with its images and videos."""
    shared: dict[str, str] = field(default_factory=dict)
    """For each held-out set, how many prompts are also in it, and which rows."""
    held_out: set[int | str] = field(default_factory=set)
    """Rows whose prompt is also held out."""
    flaky: list[Failure] = field(default_factory=list)
    """Reference solutions that pass in one run and fail in another."""
    echoed: list[str] = field(default_factory=list)
    """Ids of problems whose tests accept a program that returns its input."""
    overlaps: dict[str, str] = field(default_factory=dict)
    """For each suite, how many problems share 13 consecutive words with one of its problems, and which."""
    overlapping: dict[str, list[str]] = field(default_factory=dict)
    """Of each suite, all of them: `row 7 with HumanEval/3`."""
    examples: list[SeenPrompt] = field(default_factory=list)
    """The first, the shortest and the longest prompt in full."""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong; rows that are left out do not count."""
        return not self.findings and not self.failures and not self.flaky

    def trained_on(self, drop_shared: bool) -> int:
        """How many problems a run would draw from if the wrong rows were removed."""
        left_out = {each.row for each in self.findings} | self.overlong | (self.held_out if drop_shared else set())
        return len(self.prompts.keys() - left_out)

    def counts(self) -> dict[str, Any]:
        """Counts in the order in which they are shown."""
        counts: dict[str, Any] = {"rows": self.rows, "rows with an error": len({each.row for each in self.findings})}
        if self.untested:
            counts["rows without tests, left out"] = _named(list(self.untested))
        if self.problems:
            sizes = [len(each.test_cases) + len(each.stdin_tests) for _, each in self.problems.values()]
            counts["tests"] = sum(sizes)
            counts["tests per row"] = _spread(sizes)
            counts["rows without a solution"] = sum(each.solution is None for _, each in self.problems.values())
            counts["solutions accepted"] = self.accepted
            counts["solutions not accepted"] = len(self.failures)
            counts["solutions that only sometimes pass"] = len(self.flaky)
            counts["solutions slower than training allows"] = _named(self.slow)
            counts["rows with tests that the program could deceive"] = self.untrusted
            counts["rows whose tests accept the input given back"] = _named(self.echoed)
        counts["duplicate prompts"] = _named(self.duplicate_prompts)
        for name, shared in self.shared.items():
            counts[f"prompts that are held out{f' in {name}' if name else ''} too"] = shared
        for name, shared in self.overlaps.items():
            counts[f"problems with 13 words in a row of {name or 'held-out ones'}"] = shared
        if self.prompt_tokens:
            some = f" (of {len(self.prompt_tokens)} rows)" if len(self.prompt_tokens) < len(self.prompts) else ""
            counts["prompt tokens"] = f"{_spread(self.prompt_tokens)}{some}"
            counts["prompts left out as overlong"] = len(self.overlong)
        return counts


def check_rows(
    source: Source, split: str, config: DataConfig, needs: Needs = "answer",
    tokenizer: PreTrainedTokenizerBase | None = None, vision: bool = False, limit: int | None = None,
    settings: str = "data",
) -> CheckReport:  # fmt: skip
    """Check every row, or the first `limit`. Raises DataError only when the source cannot be read at all.

    needs: what every row must have (`RewardConfig.needs`). vision: prompts hold images. settings: the prefix of the
    settings that name columns, for messages.
    """
    unreadable: Unreadable = {}
    code = needs == "tests"
    raw = read_rows(source, split, unreadable, limit)
    report = CheckReport(shown(source), rows=len(raw) + len(unreadable))
    report.findings += [Finding(row, "", what) for row, what in unreadable.items()]
    id_key = id_column(raw, config, code)
    ids: dict[str, int | str] = {}
    prompts: dict[str, int | str] = {}
    conversations: dict[int | str, list[dict[str, Any]]] = {}
    records: list[dict[str, Any]] = raw.to_dict("records")  # type: ignore[assignment]
    for number, (row, values) in enumerate(zip(raw.index, records, strict=True)):
        name = str(values[id_key] if id_key is not None else number)
        wrong = list(_id_errors(values, id_key, name, ids, row))
        prompt, others = (
            _code_errors(values, config, report, row, name) if code else _errors(values, config, needs, settings)
        )
        wrong += others
        if prompt is not None:
            try:
                messages = conversation(spoken(prompt) if vision else prompt, config, "")
            except DataError as error:
                wrong.append(str(error).removeprefix(": "))
            else:
                media = [values[key] for key in (config.images_key, config.videos_key) if values.get(key) is not None]
                first = prompts.setdefault(repr((messages, media)), row)
                if first != row:
                    report.duplicate_prompts.append(f"row {row} repeats row {first}")
                conversations[row] = messages
                report.prompts[row] = "\n".join([*(message["content"] for message in messages), *map(repr, media)])
        report.findings += [Finding(row, name, what) for what in wrong]
    if report.rows and len(report.untested) == report.rows:
        report.findings.append(Finding(0, "", next(iter(report.untested.values()))))
    if conversations:
        _see_prompts(report, conversations, tokenizer, config, vision)
    report.findings.sort(key=lambda finding: finding.row if isinstance(finding.row, int) else 0)
    return report


def compare_with_held_out(report: CheckReport, held_out: CheckReport, name: str = "") -> None:
    """Count the prompts that a train set shares with a held-out one (allowed, but rarely intended), and add the
    held-out set's findings."""
    shared = shared_prompts(list(report.prompts.values()), list(held_out.prompts.values()))
    rows = [row for row, is_shared in zip(report.prompts, shared.normalised, strict=True) if is_shared]
    report.shared[name] = f"{shared}{': ' if rows else ''}{_listed([f'row {row}' for row in rows])}"
    report.held_out |= set(rows)
    report.untested |= {f"{held_out.source}:{row}": why for row, why in held_out.untested.items()}
    report.findings += [
        Finding(place(held_out.source, each.row) if each.row else held_out.source, each.id, each.what)
        for each in held_out.findings
    ]


def find_overlaps(report: CheckReport, suite: CheckReport, name: str) -> None:
    """Find the train problems that share 13 consecutive words with a problem of a suite (decontamination)."""
    ours, theirs = report.problems, suite.problems
    owners = overlaps([each.statement for _, each in ours.values()], [each.statement for _, each in theirs.values()])
    ids = [each_id for each_id, _ in theirs.values()]
    pairs = [f"row {row} with {ids[other]}" for row, other in zip(ours, owners, strict=True) if other >= 0]
    share = f" of {len(ours)} ({len(pairs) / len(ours):.1%})" if pairs else ""
    unread = f"; {suite.rows - len(theirs)} of its rows cannot be read" if len(theirs) < suite.rows else ""
    report.overlapping[name] = pairs
    report.overlaps[name] = f"{len(pairs)}{share}{': ' if pairs else ''}{_listed(pairs)}{unread}"


def _id_errors(
    values: dict[str, Any], id_key: str | None, name: str, ids: dict[str, int | str], row: int | str
) -> Iterator[str]:
    if id_key is not None and is_missing(values[id_key]):
        yield f"column {id_key!r} is missing or null"
    elif ids.setdefault(name, row) != row:
        yield f"id {name!r} is a duplicate of row {ids[name]}"


def _code_errors(
    values: dict[str, Any],
    config: DataConfig,
    report: CheckReport,
    row: int | str,
    name: str,
) -> tuple[Any, list[str]]:
    """(prompt, what is wrong); a usable problem, or a row that is left out, is put into the report."""
    try:
        problem = read_problem(values, config.prompt_key, config.tests_key, config.answer_key)
    except NoTests as error:
        report.untested[f"{row} ({name})"] = str(error)
        return None, []
    except RowError as error:
        return None, [str(error)]
    texts = [(f"test {place}", text) for place, text in enumerate(problem.test_cases, 1)]
    wrong = [what for where, text in [*texts, ("setup", problem.setup)] if (what := _syntax_error(where, text))]
    if not wrong:
        report.problems[row] = (name, problem)
    return problem.prompt, wrong


def _syntax_error(where: str, text: str) -> str | None:
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return f"{where} does not parse: {error}"
    return None if tree.body or where == "setup" else f"{where} has no statement"


def _errors(values: dict[str, Any], config: DataConfig, needs: Needs, settings: str) -> tuple[Any, list[str]]:
    """(prompt, what is wrong) of a row without unit tests."""
    wrong = []
    prompt = values.get(config.prompt_key)
    if is_missing(prompt):
        prompt = None
        wrong.append(f"column {config.prompt_key!r} is missing or null. Name it with {settings}.prompt_key=…")
    if is_prompt_only(values, config, needs):
        return prompt, wrong
    answer = values.get(config.answer_key)
    try:
        if config.answer_key not in values and "reward_model" in values:
            answer = ground_truth(values["reward_model"])
        if is_missing(answer):
            wrong.append(f"column {config.answer_key!r} is missing or null. Name it with {settings}.answer_key=…")
        elif is_empty(answer):
            wrong.append("the answer is empty")
        elif needs == "answer" and not is_one_answer(answer):
            wrong.append(SEVERAL_ANSWERS)
    except RowError as error:
        wrong.append(str(error))
    return prompt, wrong


def _see_prompts(
    report: CheckReport, conversations: dict[int | str, list[dict[str, Any]]],
    tokenizer: PreTrainedTokenizerBase | None, config: DataConfig, vision: bool,
) -> None:  # fmt: skip
    if tokenizer is None:
        report.examples = spoken_of(conversations)
        return
    seen = see(conversations, tokenizer, config, vision)
    report.prompt_tokens, report.overlong, report.examples = seen.lengths, seen.overlong, seen.examples
    report.findings += [Finding(row, "", what) for row, what in seen.wrong.items()]
    if seen.overlong and len(seen.overlong) == len(conversations) - len(seen.wrong):
        shortest = min(report.prompt_tokens)
        limit = config.max_prompt_length
        what = f"all prompts are longer than data.max_prompt_length={limit} (the shortest has {shortest} tokens)"
        report.findings.append(Finding(0, "", what))


def _named(rows: list[str]) -> str:
    """How many, and the first twenty of them."""
    return f"{len(rows)}{': ' if rows else ''}{_listed(rows)}"


def _listed(rows: list[str]) -> str:
    return f"{', '.join(rows[:20])}{', …' if len(rows) > 20 else ''}"


def _spread(numbers: Iterable[int]) -> str:
    values = np.array(list(numbers))
    return f"{values.min()} to {values.max()}, mean {values.mean():.1f}"
