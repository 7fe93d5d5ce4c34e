"""Rewards for code in TRL's calling convention: the share of tests that a completion's program passes, and its format.

Covered: completions as text or chat messages, the code block of a response after the thinking, format, pass rate,
all-or-nothing. `extract_code`, `code_format_score`, `no_code_verdict` and `execution_feedback` are for callers with a
sandbox pool of their own. Not covered: the reward of a verdict in training (rewards/shaping.py); languages other than
Python are only checked for format.
"""

from __future__ import annotations

import json
import logging
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rewards.thinking import without_thinking
from sandbox import UNTRUSTED, Program, SandboxUnavailable, TestOutcome, Verdict, parse, weighed
from sandbox.providers import open_sandbox

logger = logging.getLogger(__name__)

FENCE = "```"
BINARY_THRESHOLD = 0.99
_MARK = re.compile(r"py(thon3?)?", re.IGNORECASE)
_INDENTED = re.compile(r"\s*^[ \t]+\S", re.MULTILINE)
LONGEST_TEST = 200
"""Characters of a failing test that are shown."""
_PARSED_AS = "<completion>"
# Python 3.12 warns on stderr about every invalid escape in a parsed text: thousands per step, about generated programs.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=_PARSED_AS)

Completion = str | Sequence[Mapping[str, Any]]


def completion_text(completion: Completion) -> str:
    """The reply of a completion after the thinking: the text itself, or the last assistant message.

    Raises ValueError if there is no assistant message.
    """
    if isinstance(completion, str):
        return without_thinking(completion)
    for message in reversed(completion):
        if message.get("role") == "assistant":
            content: Any = message.get("content") or ""
            is_text = isinstance(content, str)
            return without_thinking(content if is_text else "".join(part.get("text") or "" for part in content))
    roles = ", ".join(str(message.get("role")) for message in completion) or "no messages"
    raise ValueError(f"a completion is text or chat messages with an assistant message (roles here: {roles})")


def code_blocks(text: str) -> Iterator[str]:
    """The closed code blocks marked as Python, without their fences. Within a list, their lines are moved to the left.

    The mark may be Python, py or python3: what a format is worth is not asked here (`code_format_score`).
    """
    for block in text.split(FENCE)[1:-1:2]:
        head, line_break, code = block.partition("\n")
        if line_break and _MARK.fullmatch(head.rstrip()):
            yield textwrap.dedent(code) if _INDENTED.match(code) else code


def extract_code(text: str) -> str | None:
    """The first of a text's `code_blocks`; None if there is none."""
    return next(code_blocks(text), None)


def code_format_score(text: str, language: str = "python", allow_trailing_text: bool = False) -> float:
    """1.0 for a reply with exactly one code block, at its end; .5 if it is not valid Python; else 0.0 (DiffuCoder).

    The block opens with a fence and `language` and closes with a fence and a line break, which end the reply; with
    `allow_trailing_text` anything but another fence may follow. Languages other than Python are not parsed.
    """
    parts = text.split(FENCE)
    if len(parts) != 3 or not parts[1].startswith(f"{language}\n") or not (allow_trailing_text or parts[2] == "\n"):
        return 0.0
    return 0.5 if language == "python" and not _is_python(parts[1][len(language) + 1 :]) else 1.0


def _is_python(source: str) -> bool:
    try:
        parse(source.strip(), _PARSED_AS)  # stripped as published: a single indented statement passes
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        # ValueError: a null byte or a lone surrogate. The last two: nesting too deep for the parser.
        return False
    return True


def get_code_format_reward(
    language: str = "python", allow_trailing_text: bool = False
) -> Callable[..., list[float | None]]:
    """A reward function `f(completions, **columns)` that gives each completion its `code_format_score`."""

    def code_format_reward(completions: Sequence[Completion], **kwargs: Any) -> list[float | None]:
        return [code_format_score(completion_text(item), language, allow_trailing_text) for item in completions]

    return code_format_reward


def code_reward(
    completions: Sequence[Completion],
    num_parallel: int = 2,
    provider_type: str = "e2b",
    enforce_same_language: bool = False,
    *,
    allow_trailing_text: bool = False,
    untrusted: str = "accept",
    **kwargs: Any,
) -> list[float | None]:
    """Share of its tests that each completion's program passes, in [0, 1]; 0.0 where the format is below 1.0.

    kwargs are the data set's columns, one entry per completion: `test_cases` (a list of asserts, or such a list as
    JSON) and, optionally, `language` and `packages` (a list of modules that programs may import; their union is
    available to all rows); other columns are ignored. Each test is judged separately in the sandbox of provider_type
    (local, e2b, morph), on `num_parallel` workers.
    untrusted: how to count tests that run in the program's own process, which could forge the outcome: accept, drop (no
    score) or zero. Under TRL the metric code_reward/untrusted counts completions with such tests.
    A failure of the sandbox itself is retried, then None: no score, never zero. Failures are logged and, under TRL,
    counted as code_reward/no_score.
    Raises ValueError before anything runs: a missing column, a row without tests, a language that is not Python, more
    than one language if `enforce_same_language`. Raises SandboxUnavailable where this machine cannot isolate programs.
    """
    texts = [completion_text(completion) for completion in completions]
    if "test_cases" not in kwargs:
        raise ValueError(f"column 'test_cases' is missing (columns: {', '.join(kwargs) or 'none'})")
    tests = [_tests(row, cases) for row, cases in enumerate(kwargs["test_cases"])]
    _check_languages(kwargs.get("language", []), enforce_same_language)
    packages = _packages(kwargs.get("packages", []))
    if untrusted not in UNTRUSTED:
        raise ValueError(f"untrusted is one of {', '.join(UNTRUSTED)}, got {untrusted!r}")
    if num_parallel < 1:
        raise ValueError(f"num_parallel is at least 1, got {num_parallel}")
    rewards: list[float | None] = [0.0] * len(texts)
    programs: dict[int, Program] = {}
    for row, (text, cases) in enumerate(zip(texts, tests, strict=True)):
        source = extract_code(text) if code_format_score(text, "python", allow_trailing_text) == 1.0 else None
        if source is not None:
            programs[row] = Program(source=source, tests=cases)
    verdicts = _judge(list(programs.values()), num_parallel, provider_type, packages)
    for row, verdict in zip(programs, verdicts, strict=True):
        rewards[row] = weighed(verdict, untrusted).pass_ratio
    unscored = sum(verdict.pass_ratio is None for verdict in verdicts)
    if unscored:
        logger.warning("code_reward: %d of %d completions have no score: the sandbox failed", unscored, len(rewards))
    if "log_metric" in kwargs:
        kwargs["log_metric"]("code_reward/no_score", float(unscored))
        kwargs["log_metric"]("code_reward/untrusted", float(sum(not each.trusted_compare for each in verdicts)))
    return rewards


def binary_code_reward(
    completions: Sequence[Completion],
    num_parallel: int = 2,
    provider_type: str = "e2b",
    enforce_same_language: bool = False,
    **kwargs: Any,
) -> list[float | None]:
    """1.0 where `code_reward` is above .99, else 0.0; None stays None."""
    rewards = code_reward(completions, num_parallel, provider_type, enforce_same_language, **kwargs)
    return [None if reward is None else float(reward > BINARY_THRESHOLD) for reward in rewards]


def no_code_verdict(tests: int) -> Verdict:
    """The verdict on a response without a program: every test fails, as with a syntax error."""
    return Verdict(0.0, "syntax_error", (TestOutcome("syntax_error", detail="no code block"),) * tests)


def execution_feedback(tests: Sequence[str], outcomes: Sequence[str]) -> str:
    """What a second turn is told: how many tests passed, and the first failure with its error type (Murphy).

    tests: their source; outcomes: one of sandbox.ERROR_TYPES each, at least one of them a failure.
    """
    failing, ending = next((place, outcome) for place, outcome in enumerate(outcomes) if outcome != "accepted")
    passed = sum(outcome == "accepted" for outcome in outcomes)
    told = f"{passed} of {len(outcomes)} tests passed. {ending.replace('_', ' ')}"
    return f"{told}: {tests[failing]:.{LONGEST_TEST}}"


def _judge(programs: list[Program], num_parallel: int, provider: str, packages: list[str]) -> list[Verdict]:
    if not programs:
        return []
    try:
        pool = open_sandbox(provider, min(num_parallel, len(programs)), packages=packages)
    except SandboxUnavailable as error:
        if provider == "local":  # retrying on this machine would not help
            raise
        logger.error("code_reward: no sandbox from %s: %s", provider, error)
        return [Verdict(None, "internal_error", ())] * len(programs)
    with pool:
        return pool.run(programs)


def _packages(named: Sequence[Any] | np.ndarray) -> list[str]:
    """Modules named in any row."""
    lists = [names for names in named if isinstance(names, Sequence | np.ndarray) and not isinstance(names, str)]
    return sorted({str(name) for names in lists for name in names})


def _tests(row: int, cases: Any) -> list[str]:
    cases = json.loads(cases) if isinstance(cases, str) else cases
    is_list = isinstance(cases, list | tuple | np.ndarray)
    if not is_list or len(cases) == 0 or not all(isinstance(case, str) for case in cases):
        raise ValueError(f"row {row}: test_cases is not a list of at least one assert, or such a list as JSON")
    return [str(case) for case in cases]


def _check_languages(languages: Sequence[Any] | np.ndarray, enforce_same: bool) -> None:
    named = {row: language for row, language in enumerate(languages) if isinstance(language, str)}  # else: not said
    if enforce_same and len(set(named.values())) > 1:
        raise ValueError(f"enforce_same_language: found {', '.join(sorted(set(named.values())))}")
    for row, language in named.items():
        if language != "python":
            raise ValueError(f"row {row}: language {language!r}; the sandbox only runs python")
