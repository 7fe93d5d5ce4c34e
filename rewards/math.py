"""Grading of mathematical answers: the last \\boxed{…} of a response against the ground truth.

Plain numbers, equal strings, and words and names are compared here, exactly: letters alone are not a product of
variables, or `ACB` would equal `ABC`, and `listen` `silent`. Everything else goes to math-verify in a worker process,
because symbolic comparison may never end, and math-verify's own timeout is a signal that only works on the main thread.
A worker that overruns is killed and replaced. A failure of the grader is None (no score); a response without an answer
is 0.0.

Run as a module, this file is the worker: one JSON request per line on stdin, one JSON reply per line on stdout.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import math
import os
import re
import selectors
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from rewards.child_process import end_with, environment

logger = logging.getLogger(__name__)

PLAIN_NUMBER = re.compile(r"[+-]?(\d{1,300}(\.\d{0,300})?|\.\d{1,300})")
SCIENTIFIC = re.compile(rf"({PLAIN_NUMBER.pattern})[eE][+-]?\d{{1,3}}")
"""How Python, JSON and most programs print small and large numbers; math-verify reads the e as a constant."""
MEASURED = re.compile(
    rf"({PLAIN_NUMBER.pattern})\s*((\\times|\\cdot|×)\s*10\s*\^\s*(\{{(?P<power>[+-]?\d{{1,3}})\}}|(?P<digit>\d))|\\?%)?"
)
"""A plain number, optionally with a percent sign or times a power of ten."""
GROUPED = re.compile(r"(?<=\d)(,?\\!|\\[, ]|\{,\}|[ ~])(?=\d{3}(?![\d/]))")
"""Separators of thousands; math-verify reads 1\\,234 as 1 + 234."""
REPEATING = re.compile(r"(\d{0,300})\.(\d{0,300})\\(overline|bar)\{(\d{1,300})\}")
"""A repeating decimal; math-verify reads only its integer part."""
NAMES = re.compile(r"[^\W\d_]+([\s,;()]+[^\W\d_]+)*[\s,;()]*")
"""Only words or names of points: letters and list separators. With optional separators between letters, a failing match
would take exponential time."""
AROUND_NAMES = re.compile(
    r"\\(text|textbf|textit|mathrm|mathbf|mathit|mathsf|operatorname|overline|overrightarrow|vec|widehat|angle|triangle|"
    r"left|right)(?![a-zA-Z])|\\[ ,;!]|[{}$~]|\.$"
)
"""Formatting and symbols around names that do not make them an expression."""
ACCENTS = re.compile(r"\\(overline|overrightarrow|vec|widehat)(?![a-zA-Z])")
"""Over a single letter they make another object of it: a conjugate, a complement, a vector."""
NUMBERS = re.compile(r"\d[\d.,]*")
NO_VALUE = frozenset({"str", "ComplexInfinity", "NaN"})
"""Types of what math-verify reads without a value to compare: text, and divisions by zero such as 10:00."""
BOXED = "\\boxed{"
_AFTER_STEPS = re.compile(r"####\s*(\S[^\n#]*?)\s*\Z")
"""The end of a GSM8K solution, with its answer."""
START_TIMEOUT = 120.0
MAX_WORKERS = 4
# Seconds after which a request counts as slow and the queue gets another worker.
SLOW = 0.5
WORKER_MEMORY = 4 << 30
# Longer answers are derivations: they take seconds to parse and never equal the ground truth.
MAX_ANSWER = 4096
SMALL = 1e-3
"""Below it, rounding to six decimals says little: numbers may differ by this share of the truth."""
NOTHING = 1e-100
"""sympy cannot always tell that a number is 0: (√2 + 1)(√2 − 1) − 1 evaluates to about 1e-125."""


def last_boxed(text: str) -> str | None:
    """Content of the last `\\boxed{…}`, by matching braces; None if there is none or it is not closed."""
    start = text.rfind(BOXED)
    if start < 0:
        return None
    depth = 1
    for brace in re.finditer(r"\\.|[{}]", text[start + len(BOXED) :], re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace.group(), 0)
        if depth == 0:
            begin = start + len(BOXED)
            return text[begin : begin + brace.start()]
    return None


def grade_answers(responses: Sequence[str], ground_truths: Sequence[Any], timeout: float = 10.0) -> list[float | None]:
    """1.0 if the response's last boxed answer equals the ground truth, 0.0 if it does not or there is none.

    None, no score, if the grader itself failed or needed more than `timeout` seconds. Ground truths are text (LaTeX,
    with or without \\boxed{}; a GSM8K solution with its answer after ####) or numbers (`answer_text`). Raises
    ValueError if the lists differ in length or a ground truth is empty, RuntimeError if no worker can be started.
    """
    if len(responses) != len(ground_truths):
        raise ValueError(f"{len(responses)} responses but {len(ground_truths)} ground truths")
    if not timeout > 0:
        raise ValueError(f"timeout must be positive, got {timeout}")
    grades: list[float | None] = []
    hard: list[tuple[int, str, str]] = []
    for i, (response, ground_truth) in enumerate(zip(responses, ground_truths, strict=True)):
        truth = _truth(ground_truth, i)
        boxed = last_boxed(response)
        answer = None if boxed is None or len(boxed) > MAX_ANSWER else _plain(boxed)
        grade = 0.0 if answer is None else _grade_plain(answer, truth)
        grades.append(grade)
        if grade is None:
            hard.append((i, str(answer), truth))
    if hard:
        for (i, _, _), grade in zip(hard, _pool().grade([(a, t) for _, a, t in hard], timeout), strict=True):
            grades[i] = grade
    return grades


def answer_text(answer: Any) -> str:
    """A row's answer as text: numbers in digits (never 1e-05), a list of one as its element, other lists and objects as
    JSON."""
    if isinstance(answer, list) and len(answer) == 1:
        return answer_text(answer[0])
    if isinstance(answer, float | Decimal) and math.isfinite(answer):
        return format(Decimal(str(answer)), "f")
    return json.dumps(answer, default=str) if isinstance(answer, list | dict) else str(answer)


def _truth(ground_truth: Any, row: int) -> str:
    text = "" if ground_truth is None else answer_text(ground_truth)
    marked = _AFTER_STEPS.search(text)
    boxed = last_boxed(text) if marked is None else marked[1]
    text = _plain(text if boxed is None else boxed)
    if not text:
        raise ValueError(f"row {row}: the ground truth is empty")
    return text


def _plain(text: str) -> str:
    """Without dollars and a full stop around it, and with numbers written so that math-verify reads them correctly."""
    text = text.strip().strip("$").strip()
    if text.endswith(".") and not text.endswith(".."):
        text = text[:-1].rstrip("$ ")
    text = GROUPED.sub("", text)
    text = REPEATING.sub(_as_fraction, text)
    return format(Decimal(text), "f") if SCIENTIFIC.fullmatch(text) else text


def _as_fraction(repeating: re.Match[str]) -> str:
    whole, once, _, period = repeating.groups()
    numerator = int(whole + once + period) - int("0" + whole + once)
    return f"\\frac{{{numerator}}}{{{(10 ** len(period) - 1) * 10 ** len(once)}}}"


def _grade_plain(answer: str, truth: str) -> float | None:
    """The grade if strings, plain numbers or names decide it, else None."""
    if not answer:
        return 0.0
    if _tight(answer) == _tight(truth):
        return 1.0
    if PLAIN_NUMBER.fullmatch(answer) and PLAIN_NUMBER.fullmatch(truth):
        return float(Decimal(answer) == Decimal(truth))
    number = _measured(answer)
    if number is not None and number == _measured(truth):
        return 1.0
    given, wanted = _names(answer), _names(truth)
    if given is None or wanted is None:
        return None
    equal = "(" in answer and given == wanted if "(" in truth else sorted(given) == sorted(wanted)
    if max(map(len, wanted)) < 2 and (not equal or ACCENTS.search(answer + truth)):
        return None  # single letters may be variables, or choices: (A) is A
    return float(equal)


def _tight(text: str) -> str:
    """Without insignificant blanks: only those between letters or digits stay."""
    return re.sub(r" ?([^\w ]) ?", r"\1", " ".join(text.split()))


def _measured(text: str) -> Decimal | None:
    """The value of a plain number, times its power of ten, without its percent sign; None for anything else."""
    match = MEASURED.fullmatch(text)
    return match and Decimal(f"{match[1]}E{match['power'] or match['digit'] or 0}")


def _names(text: str) -> list[str] | None:
    """The words or names in an answer, one per list entry; None if it contains anything else."""
    bare = AROUND_NAMES.sub(" ", text).strip()
    if not NAMES.fullmatch(bare.lstrip("( ")):
        return None
    return ["".join(entry.casefold().split()) for entry in re.split("[,;()]+", bare) if entry.strip()]


class _Worker:
    """A grader process and its current request."""

    def __init__(self) -> None:
        # -P keeps the working directory off the import path. In its own session the worker does not receive Ctrl-C; the
        # pool ends it.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rewards.math"],
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        os.set_blocking(self.stdout.fileno(), False)
        self.buffer = b""
        self.ready = False
        self.job: int | None = None
        self.started = time.monotonic()
        self.deadline = time.monotonic() + START_TIMEOUT

    def send(self, job: int, request: tuple[str, str], timeout: float) -> bool:
        """Send a request; False if the process is gone."""
        try:
            self.stdin.write(json.dumps(request).encode() + b"\n")
            self.stdin.flush()
        except BrokenPipeError:
            return False
        self.job, self.started = job, time.monotonic()
        self.deadline = self.started + timeout
        return True

    def receive(self) -> list[bytes] | None:
        """Complete lines received so far; None at the end of the stream."""
        chunk = os.read(self.stdout.fileno(), 1 << 16)
        if not chunk:
            return None
        *lines, self.buffer = (self.buffer + chunk).split(b"\n")
        return lines

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.stdin, self.stdout):
            # Closing flushes a request that the dead process never read.
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class _Pool:
    """Grader processes, started on demand, that live as long as this process."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.workers: list[_Worker] = []
        self.lock = threading.Lock()
        atexit.register(self.close)

    def grade(self, requests: Sequence[tuple[str, str]], timeout: float) -> list[float | None]:
        with self.lock:
            try:
                return self._grade(requests, timeout)
            except BaseException:
                # After any interruption: the next caller must not receive replies to these requests.
                self.close()
                raise

    def _grade(self, requests: Sequence[tuple[str, str]], timeout: float) -> list[float | None]:
        grades: list[float | None] = [None] * len(requests)
        pending = deque(range(len(requests)))
        limit = min(MAX_WORKERS, os.cpu_count() or 1)
        while pending or any(worker.job is not None for worker in self.workers):
            for worker in [w for w in self.workers if w.ready and w.job is None]:
                if not pending:
                    break
                job = pending.popleft()
                if not worker.send(job, requests[job], timeout):
                    # It died while idle, so the request is not to blame and goes to another worker.
                    pending.appendleft(job)
                    self._drop(worker)
            starting = sum(not worker.ready for worker in self.workers)
            # A process answers hundreds of requests a second, so another one only pays off for a long queue, or if a
            # request that may never end blocks the queue.
            now = time.monotonic()
            slow = sum(worker.job is not None and now - worker.started > SLOW for worker in self.workers)
            wanted = min(limit, 1 + slow + len(pending) // 64)
            while pending and len(self.workers) < wanted and starting < wanted:
                self.workers.append(_Worker())
                starting += 1
            self._collect(grades, requests, SLOW if pending else float("inf"))
        return grades

    def _collect(self, grades: list[float | None], requests: Sequence[tuple[str, str]], patience: float) -> None:
        """Wait for replies or the earliest deadline, at most `patience` seconds, and process both."""
        waiting = [worker for worker in self.workers if worker.job is not None or not worker.ready]
        if not waiting:
            return
        with selectors.DefaultSelector() as selector:
            for worker in waiting:
                selector.register(worker.stdout, selectors.EVENT_READ, worker)
            earliest = min(worker.deadline for worker in waiting)
            events = selector.select(min(patience, max(0.0, earliest - time.monotonic())))
        for key, _ in events:
            worker = key.data
            lines = worker.receive()
            if lines is None:
                self._fail(worker, requests, "died")
                continue
            for line in lines:
                reply = json.loads(line)
                if worker.job is None:
                    worker.ready = True
                    continue
                if "error" in reply:
                    logger.warning("grader failed on %.200r: %s", requests[worker.job], reply["error"])
                grades[worker.job] = reply.get("score")
                worker.job = None
        now = time.monotonic()
        for worker in [w for w in self.workers if (w.job is not None or not w.ready) and w.deadline <= now]:
            self._fail(worker, requests, "timed out")

    def _fail(self, worker: _Worker, requests: Sequence[tuple[str, str]], how: str) -> None:
        """Remove a worker that died or overran; its request gets no score."""
        self._drop(worker)
        if not worker.ready:
            raise RuntimeError(f"a math-verify worker {how} while starting (exit code {worker.process.returncode})")
        if worker.job is not None:
            logger.warning("grader %s on %.200r: no score", how, requests[worker.job])

    def _drop(self, worker: _Worker) -> None:
        worker.kill()
        self.workers.remove(worker)

    def close(self) -> None:
        """Kill all workers; not in a forked child, where they belong to the parent."""
        if self.owner == os.getpid():
            for worker in list(self.workers):
                self._drop(worker)


_shared: _Pool | None = None
_shared_lock = threading.Lock()


def _pool() -> _Pool:
    """This process's pool; a forked child starts its own."""
    global _shared
    with _shared_lock:
        if _shared is None or _shared.owner != os.getpid():
            _shared = _Pool()
        return _shared


def _equal(answer: str, truth: str) -> bool:
    """Equality by math-verify, or of text if the ground truth is not a mathematical expression."""
    from math_verify import verify

    # math-verify expects inline math on one line.
    answer, truth = " ".join(answer.split()), " ".join(truth.split())
    gold = _parsed(truth)
    if all(type(item).__name__ in NO_VALUE for item in gold):
        return answer.casefold() == truth.casefold()
    target = _parsed(answer)
    return bool(verify(gold, target, timeout_seconds=None, raise_on_error=True)) and _as_small(gold, target)


def _parsed(text: str) -> list[Any]:
    """What math-verify reads: expressions, and the text they were read from; nothing if it cannot read the text."""
    from math_verify import LatexExtractionConfig, parse

    latex = parse(f"${text}$", [LatexExtractionConfig()], parsing_timeout=None, raise_on_error=True)
    if all(isinstance(item, str) for item in latex) and len(NUMBERS.findall(text)) > 1:
        return []  # it would take the last of the numbers for the answer: 5 for 17 \bmod 5
    return parse(f"${text}$", parsing_timeout=None, raise_on_error=True)


def _as_small(gold: list[Any], target: list[Any]) -> bool:
    """False if math-verify, which rounds to six decimals, confused two different small numbers."""
    # `doit`: math-verify leaves the factor 1/100 of a percentage unevaluated.
    numbers = [
        [item.doit().evalf() for item in parsed if getattr(item, "is_number", False)] for parsed in (gold, target)
    ]
    if not all(numbers):
        return True
    size, gap = abs(numbers[0][0]), abs(numbers[1][0] - numbers[0][0])
    if not (size.is_comparable and gap.is_comparable):  # infinite, or without a numerical value
        return True
    return bool(size >= SMALL or gap <= SMALL * size + NOTHING)


def _serve() -> None:
    """The worker: answers requests until stdin closes or the parent is gone."""
    import resource

    end_with(os.getppid())  # during a comparison it would not notice that stdin has closed
    resource.setrlimit(resource.RLIMIT_AS, (WORKER_MEMORY, WORKER_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # The real stdout carries only replies; whatever libraries print goes to stderr.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    logging.disable(logging.CRITICAL)
    _equal("1/2", "0.5")
    print(json.dumps({"ready": True}), file=replies, flush=True)
    for line in sys.stdin:
        answer, truth = json.loads(line)
        try:
            reply: dict[str, Any] = {"score": float(_equal(answer, truth))}
        except Exception as error:  # noqa: BLE001 (any failure inside the grader is reported, and is no score)
            reply = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    _serve()
