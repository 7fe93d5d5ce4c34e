"""Check every row of a data set and report everything that is wrong with it, and what a model is given of it.

Covered: what loading would refuse (ares/data/problems.py), for all rows and not only the first; tests that do not
parse; duplicate prompts; prompts that are held out too; lengths in tokens (of a large set, of a sample), and three
prompts in full. Not covered: running programs (ares/data/trials.py), whether the answers of a math set are right,
images (loading reads them).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from ares.config import DataConfig, Needs, Source
from ares.data.chats import check_template, rendered
from ares.data.code import CodeProblem
from ares.data.problems import each_row, missing_columns
from ares.data.shared import overlaps, shared_prompts
from ares.data.sources import place, read_rows, shown
from ares.data.tables import DataError, Unreadable
from ares.data.vision import in_parts
from rewards.math import asked_format
from sandbox import parse

UNSAID = "unsaid: boxed is read"
"""Where a prompt does not say how to answer."""
MEASURED = 5_000
"""Rows of a large set whose tokens are counted, besides every row that may be overlong."""
Line = int | str
"""As errors name rows: the line of a jsonl file, else the row number from 1; with several files also the file. 0: the
whole set."""
Messages = list[dict[str, Any]]


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with one row."""

    row: Line
    id: str
    what: str


@dataclass(frozen=True)
class Failure:
    """A reference solution that fails its own tests."""

    row: Line
    id: str
    error_type: str
    test: str
    """First line of the first test that fails."""
    detail: str


@dataclass(frozen=True)
class SeenPrompt:
    """One prompt in full."""

    row: Line
    text: str
    """The prompt decoded from its tokens; without a tokenizer the messages with their roles."""
    tokens: int | None = None
    special: list[str] = field(default_factory=list)
    """The special tokens in it."""


@dataclass
class CheckReport:
    """The result of checking a data set."""

    source: str
    rows: int
    findings: list[Finding] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    flaky: list[Failure] = field(default_factory=list)
    """Reference solutions that pass in one run and fail in another."""
    accepted: int = 0
    """Reference solutions that pass."""
    slow: list[str] = field(default_factory=list)
    """Ids of accepted solutions with a test that takes longer than training allows (reward.code.cpu_seconds or the
    row's own limit)."""
    untrusted: int = 0
    """Solutions whose tests compare the program's own objects, and so must run in its process."""
    echoed: list[str] = field(default_factory=list)
    """Ids of problems whose tests accept a program that returns its input."""
    problems: dict[Line, tuple[str, CodeProblem]] = field(default_factory=dict)
    """Code problems that can be used: row → (id, problem)."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Rows left out, `3 (Mbpp/7)`, and why: code without a test, an answer that cannot be graded."""
    asked: dict[str, int] = field(default_factory=dict)
    """Where prompts ask for the answer, and how many (reward.kind=math)."""
    spoiled: list[Line] = field(default_factory=list)
    """Rows whose prompt holds special tokens of the tokenizer as text."""
    template: list[str] = field(default_factory=list)
    """What is odd about the chat template."""
    prompts: dict[Line, str] = field(default_factory=dict)
    """Row → its prompt as text, with its images and videos."""
    duplicate_prompts: list[str] = field(default_factory=list)
    """`row 7 repeats row 3`: allowed, but rarely intended."""
    prompt_tokens: list[int] = field(default_factory=list)
    """Lengths after the chat template (of a large set, a sample); empty without a tokenizer."""
    overlong: set[Line] = field(default_factory=set)
    """Rows that are left out."""
    held_out: set[Line] = field(default_factory=set)
    """Rows whose prompt is also held out."""
    shared: dict[str, str] = field(default_factory=dict)
    """For each held-out set, how many prompts are also in it, and which rows."""
    overlapping: dict[str, list[str]] = field(default_factory=dict)
    """For each suite, the problems that share 13 consecutive words with one of its: `row 7 with HumanEval/3`."""
    unread: dict[str, int] = field(default_factory=dict)
    """For each suite, the rows that could not be compared."""
    examples: list[SeenPrompt] = field(default_factory=list)
    """The first, the shortest and the longest prompt that is kept, in full."""

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
        if self.left_out:
            what = "without tests" if self.problems else "that cannot be graded"
            counts[f"rows {what}, left out"] = _named(list(self.left_out))
        if self.asked:
            counts["answers are asked for as"] = ", ".join(
                f"{where} ({count} rows)" for where, count in self.asked.items()
            )
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
        for name, pairs in self.overlapping.items():
            share = f" of {len(self.problems)} ({len(pairs) / len(self.problems):.1%})" if pairs else ""
            unread = f"; {self.unread[name]} of its rows cannot be read" if self.unread[name] else ""
            counts[f"problems with 13 words in a row of {name or 'held-out ones'}"] = _named(pairs, share) + unread
        if self.prompt_tokens:
            some = f" (of {len(self.prompt_tokens)} rows)" if len(self.prompt_tokens) < len(self.prompts) else ""
            counts["prompt tokens"] = f"{_spread(self.prompt_tokens)}{some}"
            counts["prompts left out as overlong"] = len(self.overlong)
        if self.spoiled:
            counts["prompts with special tokens as text"] = _named([f"row {line}" for line in self.spoiled])
        for number, odd in enumerate(self.template, 1):
            counts[f"chat template, {number}"] = odd
        return counts


def check_rows(
    source: Source, split: str, config: DataConfig, needs: Needs = "answer",
    tokenizer: PreTrainedTokenizerBase | None = None, vision: bool = False, limit: int | None = None,
    settings: str = "data", answer: str | None = None,
) -> CheckReport:  # fmt: skip
    """Check every row, or the first `limit`. Raises DataError only when the source cannot be read at all.

    needs: what every row must have (`RewardConfig.needs`). vision: prompts hold images. settings: the prefix of the
    settings that name columns, for messages. answer: reward.answer, where answers are read whatever the prompt says.
    """
    unreadable: Unreadable = {}
    raw = read_rows(source, split, unreadable, limit)
    report = CheckReport(shown(source), rows=len(raw) + len(unreadable))
    report.findings = [Finding(line, "", what) for line, what in unreadable.items()]
    if absent := missing_columns(raw, config, needs, settings):
        report.findings += [Finding(0, "", what) for what in absent]
        return report
    shows = [raw[key].tolist() for key in (config.images_key, config.videos_key) if key in raw]
    first_of: dict[str, Line] = {}
    conversations: dict[Line, Messages] = {}
    for row in each_row(raw, config, needs, settings, vision):
        wrong = row.wrong
        if row.problem is not None:
            errors = _syntax_errors(row.problem)
            wrong += errors
            if not errors:
                report.problems[row.line] = (row.id, row.problem)
        if row.left_out:
            report.left_out[f"{row.line} ({row.id})"] = row.left_out
        if row.messages and not row.left_out:
            media = [values[row.position] for values in shows if values[row.position] is not None]
            first = first_of.setdefault(repr((row.messages, media)), row.line)
            if first != row.line:
                report.duplicate_prompts.append(f"row {row.line} repeats row {first}")
            conversations[row.line] = row.messages
            if needs == "answer":
                where = asked_format("\n".join(message["content"] for message in row.messages)) or UNSAID
                report.asked[where] = report.asked.get(where, 0) + 1
            said = [message["content"] for message in row.messages]
            report.prompts[row.line] = "\n".join([*said, *map(repr, media)])
        report.findings += [Finding(row.line, row.id, what) for what in wrong]
    if other := [where for where in report.asked if answer is not None and where not in (answer, UNSAID)]:
        what = f"prompts ask for the answer as {', '.join(other)}, and reward.answer={answer} reads it elsewhere"
        report.findings.append(Finding(0, "", what))
    if report.rows and len(report.left_out) == report.rows:
        report.findings.append(Finding(0, "", next(iter(report.left_out.values()))))
    if tokenizer is not None and conversations:
        _see(report, conversations, tokenizer, config, vision)
    else:
        texts = {line: _spoken(messages) for line, messages in conversations.items()}
        report.examples = [SeenPrompt(line, texts[line]) for line in _examples(texts)]
    report.findings.sort(key=lambda finding: finding.row if isinstance(finding.row, int) else 0)
    return report


def compare_with_held_out(
    report: CheckReport, held_out: CheckReport, name: str = "", drop_shared: bool = False
) -> None:
    """Count the prompts that a train set shares with a held-out one (allowed, but rarely intended), and add the
    held-out set's findings. If every held-out prompt is trained on, that is one too, unless data.drop_shared leaves
    them out."""
    ours, theirs = list(report.prompts.values()), list(held_out.prompts.values())
    shared = shared_prompts(ours, theirs)
    if theirs and not drop_shared and shared_prompts(theirs, ours).normalised.all():
        what = (
            f"all {len(theirs)} prompts of {held_out.source} are in the train set: what is measured is what was "
            "learnt by heart. data.drop_shared=true leaves them out of training"
        )
        report.findings.append(Finding(0, "", what))
    rows = [row for row, is_shared in zip(report.prompts, shared.normalised, strict=True) if is_shared]
    report.shared[name] = _named([f"row {row}" for row in rows], counted=str(shared))
    report.held_out |= set(rows)
    report.left_out |= {f"{held_out.source}:{row}": why for row, why in held_out.left_out.items()}
    report.findings += [
        Finding(place(held_out.source, each.row) if each.row else held_out.source, each.id, each.what)
        for each in held_out.findings
    ]


def find_overlaps(report: CheckReport, suite: CheckReport, name: str) -> None:
    """Find the train problems that share 13 consecutive words with a problem of a suite (decontamination)."""
    ours, theirs = report.problems, suite.problems
    owners = overlaps([each.statement for _, each in ours.values()], [each.statement for _, each in theirs.values()])
    ids = [each_id for each_id, _ in theirs.values()]
    report.overlapping[name] = [
        f"row {row} with {ids[other]}" for row, other in zip(ours, owners, strict=True) if other is not None
    ]
    report.unread[name] = suite.rows - len(theirs)


def _syntax_errors(problem: CodeProblem) -> list[str]:
    """What is wrong with the tests and the setup as Python."""
    wrong = []
    for where, text in [
        *((f"test {n}", text) for n, text in enumerate(problem.test_cases, 1)),
        ("setup", problem.setup),
    ]:
        try:
            if not parse(text).body and where != "setup":
                wrong.append(f"{where} has no statement")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            wrong.append(f"{where} does not parse: {error}")
    return wrong


# ---- what a model is given -----------------------------------------------------------------------------------------


def _see(
    report: CheckReport, conversations: dict[Line, Messages], tokenizer: PreTrainedTokenizerBase, config: DataConfig,
    vision: bool,
) -> None:  # fmt: skip
    """Render and tokenise the prompts. Raises DataError if there is no usable chat template."""
    check_template(tokenizer, config.chat_template_kwargs)
    texts: dict[Line, str] = {}
    for line, messages in conversations.items():
        try:
            texts[line] = rendered(
                tokenizer, in_parts(messages)[0] if vision else messages, config.chat_template_kwargs
            )
        except DataError as error:
            report.findings.append(Finding(line, "", str(error)))
    special_tokens = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    report.spoiled = [
        line
        for line, messages in conversations.items()
        if any(token in message["content"] for message in messages for token in special_tokens)
    ]
    measured = _to_measure(texts, config.max_prompt_length)
    token_ids = _tokens(tokenizer, [texts[line] for line in measured])
    lengths = {line: len(ids) for line, ids in zip(measured, token_ids, strict=True)}
    report.prompt_tokens = list(lengths.values())
    report.overlong = {line for line, length in lengths.items() if length > config.max_prompt_length}
    if texts and len(report.overlong) == len(texts):
        what = (
            f"all prompts are longer than data.max_prompt_length={config.max_prompt_length} (the shortest has "
            f"{min(report.prompt_tokens)} tokens)"
        )
        report.findings.append(Finding(0, "", what))
    for line in _examples({line: text for line, text in texts.items() if line not in report.overlong}):
        (ids,) = _tokens(tokenizer, [texts[line]])
        special = {str(tokenizer.added_tokens_decoder[id]) for id in ids if id in tokenizer.added_tokens_decoder}
        text = str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))
        report.examples.append(SeenPrompt(line, text, len(ids), sorted(special)))


def _tokens(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    return list(tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"]) if texts else []


def _to_measure(texts: dict[Line, str], limit: int) -> list[Line]:
    """All rows of a small set; of a large one a regular sample, and those that may have more tokens than `limit`.

    A token is at least one byte, but a normaliser may expand text: half the limit in bytes already counts as too long.
    """
    every = max(len(texts) // MEASURED, 1)
    return [
        line
        for number, (line, text) in enumerate(texts.items())
        if number % every == 0 or 2 * len(text.encode(errors="replace")) > limit
    ]


def _spoken(messages: Messages) -> str:
    return "\n".join(f"{message['role']}: {message['content']}" for message in messages)


def _examples(texts: dict[Line, str]) -> list[Line]:
    by_length = sorted(texts, key=lambda line: len(texts[line]))
    return list(dict.fromkeys([*list(texts)[:1], *by_length[:1], *by_length[-1:]]))


def _named(rows: list[str], share: str = "", counted: str | None = None) -> str:
    """How many, and the first twenty of them."""
    some = f": {', '.join(rows[:20])}{', …' if len(rows) > 20 else ''}" if rows else ""
    return f"{len(rows) if counted is None else counted}{share}{some}"


def _spread(numbers: Iterable[int]) -> str:
    values = np.array(list(numbers))
    return f"{values.min()} to {values.max()}, mean {values.mean():.1f}"
