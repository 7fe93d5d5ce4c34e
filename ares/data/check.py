"""Check every row of a data set and report everything that is wrong with it, and what a model is given of it.

Covered: what loading would refuse (ares/data/problems.py), for all rows and not only the first; tests that do not
parse; duplicate prompts; prompts that are held out too; lengths in tokens, and three prompts in full. Not covered:
running programs (ares/grading/trials.py), whether the answers of a math set are right, images (loading reads them).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase

from ares.config import DataConfig, Needs, Source
from ares.data.chats import check_template
from ares.data.code import CodeProblem, statement_in
from ares.data.code_tests import UNPARSABLE
from ares.data.problems import Begin
from ares.data.rows import Row, each_row, missing_columns, with_graders
from ares.data.shared import overlaps, shared_prompts
from ares.data.sources import place, read_readable, shown
from rewards.math import asked_format
from sandbox import parse

UNSAID = "unsaid: boxed is read"
"""Where a prompt does not say how to answer."""
Line = int | str
"""As errors name rows: the line of a jsonl file, else the row number from 1; of a held-out set also the file. 0: the
whole set."""


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong with one row; of a reference solution that fails its own tests the kind of error."""

    row: Line
    id: str
    what: str
    test: str = ""
    """Of a solution: the first line of the first test that fails."""
    detail: str = ""


@dataclass(frozen=True)
class SeenPrompt:
    """One prompt in full."""

    row: Line
    text: str
    """The prompt decoded from its tokens."""
    tokens: int


@dataclass
class CheckReport:
    """The result of checking a data set."""

    source: str
    rows: int
    findings: list[Finding] = field(default_factory=list)
    failures: list[Finding] = field(default_factory=list)
    """Reference solutions that fail, or pass in some runs only."""
    counted: dict[str, Any] = field(default_factory=dict)
    """What else is said of the set, in the order in which it was found."""
    problems: dict[Line, tuple[str, CodeProblem]] = field(default_factory=dict)
    """Code problems that can be used: row → (id, problem)."""
    statements: dict[Line, tuple[str, str]] = field(default_factory=dict)
    """Row → (id, the problem as the row holds it, without what the settings put around it)."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Rows that are no problems, `3 (Mbpp/7)`, and why: code without a test, an answer that cannot be graded."""
    prompts: dict[Line, str] = field(default_factory=dict)
    """Row → its prompt as text, with its images and videos."""
    untrained: set[Line] = field(default_factory=set)
    """Rows that are not trained on though nothing is wrong: overlong, or held out too (data.drop_shared)."""
    examples: list[SeenPrompt] = field(default_factory=list)
    """The first, the shortest and the longest prompt that is kept, in full; none without a tokenizer."""

    @property
    def good(self) -> bool:
        """Whether nothing is wrong, and something is trained on; rows that are left out do not count."""
        return not self.findings and not self.failures and self.trained_on > 0

    @property
    def trained_on(self) -> int:
        """How many problems a run would draw from if the wrong rows were removed."""
        return len(self.prompts.keys() - {each.row for each in self.findings} - self.untrained)

    def counts(self) -> dict[str, Any]:
        """Counts in the order in which they are shown."""
        return {"rows": self.rows, "rows with an error": len({each.row for each in self.findings} - {0})} | self.counted

    def add(self, what: str, row: Line = 0, id: str = "") -> None:
        """Add a finding, of the whole set if no row is named."""
        self.findings.append(Finding(row, id, what))


def check_rows(
    source: Source, split: str, config: DataConfig, needs: Needs = "answer",
    tokenizer: PreTrainedTokenizerBase | None = None, vision: bool = False, limit: int | None = None,
    answer: str | None = None, begin: Begin | None = None, held_out: bool = False, name: str = "",
) -> CheckReport:  # fmt: skip
    """Check every row, or the first `limit`. Raises DataError if the source cannot be read at all, or the tokenizer has
    no usable chat template.

    needs: what every row must have (`RewardConfig.needs`). vision: prompts hold images. answer: reward.answer, where
    answers are read whatever the prompt says. begin, held_out: as for `load_problems`. name: of the set, for
    reward.by_row.
    """
    raw, unreadable = read_readable(source, split, limit, held_out)
    raw = with_graders(raw if begin is None else begin(raw, source, config), needs, name)
    report = CheckReport(shown(source), len(raw) + len(unreadable))
    for line, what in unreadable.items():
        report.add(what, line)
    for what in (absent := missing_columns(raw, config, needs)):
        report.add(what)
    if absent:
        return report
    if tokenizer is not None:
        check_template(tokenizer, config.chat_template_kwargs)
    rows = list(each_row(raw, config, needs, vision, tokenizer))
    shows = [raw[key].tolist() for key in (config.images_key, config.videos_key) if key in raw]
    for row in filter(_asks, rows):
        media = [repr(values[row.position]) for values in shows if values[row.position] is not None]
        report.prompts[row.line] = "\n".join([*(message["content"] for message in row.messages), *media])
    for row in rows:
        errors = [] if row.problem is None else _syntax_errors(row.problem)
        if row.problem is not None and not errors:
            report.problems[row.line] = (row.id, row.problem)
            report.statements[row.line] = (row.id, row.problem.statement)
        elif row.problem is None and row.asked is not None:
            report.statements[row.line] = (row.id, statement_in(row.asked))
        if row.left_out:
            report.left_out[f"{row.line} ({row.id})"] = row.left_out
        for what in (*row.wrong, *errors):
            report.add(what, row.line, row.id)
    if report.left_out:
        what = "without tests" if needs == "tests" else "that cannot be graded"
        report.counted[f"rows {what}, left out"] = named(list(report.left_out))
    asking = list(filter(_asks, rows))
    if needs == "answer":
        _see_formats(report, asking, answer)
    if report.problems:
        sizes = [len(each.test_cases) + len(each.stdin_tests) for _, each in report.problems.values()]
        report.counted["tests"] = sum(sizes)
        report.counted["tests per row"] = _spread(sizes)
        report.counted["rows without a solution"] = sum(each.solution is None for _, each in report.problems.values())
    _see_duplicates(report)
    if tokenizer is not None:
        _see_prompts(report, asking, tokenizer, config.max_prompt_length)
    report.findings.sort(key=lambda finding: finding.row if isinstance(finding.row, int) else 0)
    return report


def compare_with_held_out(
    report: CheckReport, held_out: CheckReport, name: str = "", drop_shared: bool = False
) -> None:
    """Count the prompts that a train set shares with a held-out one (allowed, but rarely intended), and add the
    held-out set's findings. If every held-out prompt is trained on, that is one too, unless data.drop_shared leaves
    them out."""
    ours, theirs = list(report.prompts.values()), list(held_out.prompts.values())
    rows = [row for row, is_shared in zip(report.prompts, shared_prompts(ours, theirs), strict=True) if is_shared]
    report.counted[f"prompts that are held out{f' in {name}' if name else ''} too"] = named(
        [f"row {row}" for row in rows]
    )
    if drop_shared:
        report.untrained |= set(rows)
    elif theirs and shared_prompts(theirs, ours).all():
        report.add(f"all {len(theirs)} prompts of {held_out.source} are in the train set: set data.drop_shared=true")
    report.left_out |= {f"{held_out.source}:{row}": why for row, why in held_out.left_out.items()}
    for each in held_out.findings:
        report.add(each.what, place(held_out.source, each.row) if each.row else held_out.source, each.id)


def find_overlaps(report: CheckReport, suite: CheckReport, name: str) -> None:
    """Find the train problems that share 13 consecutive words with a problem of a suite (decontamination)."""
    ours, theirs = report.statements, list(suite.statements.values())
    owners = overlaps([text for _, text in ours.values()], [text for _, text in theirs])
    pairs = [f"row {row} with {theirs[other][0]}" for row, other in zip(ours, owners, strict=True) if other is not None]
    report.counted[f"problems with 13 words in a row of {name or 'held-out ones'}"] = named(pairs)


def named(rows: Sequence[str], count: str | None = None) -> str:
    """How many, and the first twenty of them."""
    some = f": {', '.join(rows[:20])}{', …' if len(rows) > 20 else ''}" if rows else ""
    return f"{len(rows) if count is None else count}{some}"


def _syntax_errors(problem: CodeProblem) -> list[str]:
    """What is wrong with the tests and the setup as Python."""
    wrong = []
    tests = {f"test {number}": text for number, text in enumerate(problem.test_cases, 1)}
    for where, text in (tests | {"setup": problem.setup}).items():
        try:
            if not parse(text).body and where != "setup":
                wrong.append(f"{where} has no statement")
        except UNPARSABLE as error:
            wrong.append(f"{where} does not parse: {error}")
    return wrong


def _see_formats(report: CheckReport, rows: list[Row], answer: str | None) -> None:
    """Count where prompts ask for the answer. If that is not where reward.answer reads it, no answer can be right."""
    asked = Counter(asked_format("\n".join(each["content"] for each in row.messages)) or UNSAID for row in rows)
    if asked:
        report.counted["answers are asked for as"] = ", ".join(f"{how} ({count} rows)" for how, count in asked.items())
    if other := [how for how in asked if answer is not None and how not in (answer, UNSAID)]:
        report.add(f"prompts ask for the answer as {', '.join(other)}, and reward.answer={answer} reads it elsewhere")


def _asks(row: Row) -> bool:
    return bool(row.messages) and not row.left_out


def _see_duplicates(report: CheckReport) -> None:
    """Note prompts that repeat another: allowed, but rarely intended."""
    first_of: dict[str, Line] = {}
    repeated = []
    for line, text in report.prompts.items():
        if (first := first_of.setdefault(text, line)) != line:
            repeated.append(f"row {line} repeats row {first}")
    report.counted["duplicate prompts"] = named(repeated)


def _see_prompts(report: CheckReport, rows: list[Row], tokenizer: PreTrainedTokenizerBase, limit: int) -> None:
    """Measure the prompts, and keep three of them in full. limit: data.max_prompt_length."""
    lines = [row.line for row in rows if row.text]
    if not lines:
        return
    token_ids = tokenizer([row.text for row in rows if row.text], add_special_tokens=False, verbose=False)["input_ids"]
    ids_of: dict[Line, list[int]] = dict(zip(lines, token_ids, strict=True))
    overlong = {line for line, ids in ids_of.items() if len(ids) > limit}
    report.untrained |= overlong
    report.counted["prompt tokens"] = _spread(map(len, token_ids))
    report.counted["prompts left out as overlong"] = len(overlong)
    special = [str(token) for token in tokenizer.added_tokens_decoder.values() if token.special]
    said = {row.line: "\n".join(each["content"] for each in row.messages) for row in rows}
    if spoiled := [line for line, text in said.items() if any(token in text for token in special)]:
        report.counted["prompts with special tokens as text"] = named([f"row {line}" for line in spoiled])
    texts = {line: str(tokenizer.decode(ids, clean_up_tokenization_spaces=False)) for line, ids in ids_of.items()}
    kept = [line for line in texts if line not in report.untrained]
    by_length = sorted(kept, key=lambda line: len(texts[line]))
    for line in dict.fromkeys([*kept[:1], *by_length[:1], *by_length[-1:]]):
        report.examples.append(SeenPrompt(line, texts[line], len(ids_of[line])))


def _spread(numbers: Iterable[int]) -> str:
    values = np.array(list(numbers))
    return f"{values.min()} to {values.max()}, mean {values.mean():.1f}"
