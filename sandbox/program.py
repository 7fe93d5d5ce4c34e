"""What goes into the sandbox and what comes out of it."""

import ast
import dataclasses
import threading
import warnings
from collections.abc import Sequence

# Such warnings are about untrusted programs; on the terminal they would be thousands of lines a step.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=r"<(text|test|setup)>")
ERROR_TYPES = (
    "internal_error",
    "untrusted",
    "syntax_error",
    "memory",
    "timeout",
    "output_limit",
    "runtime_error",
    "wrong_answer",
    "truncated",
    "accepted",
)
"""Classes of a verdict, worst first: a verdict has the worst class among its failing tests. No test is `untrusted`, but
a verdict that has no score because tests ran in the program's process (weighed)."""
COMPARISONS = ("lines", "tokens", "numbers")
"""Ways to compare a script's output with the expected one: worker/outputs.py."""
UNTRUSTED = ("accept", "drop", "zero")
"""How outcomes of tests that ran in the program's own process may count: see weighed()."""
_MAX_OUTPUT_CHARS = 64 << 10
_ONE_AT_A_TIME = threading.Lock()
"""CPython 3.11 counts a tree's depth for all threads together: two that build trees at once raise SystemError."""


def parse(text: str, name: str = "<text>") -> ast.Module:
    """The tree of a text, from any thread; warnings give it this name. Raises what `ast.parse` raises."""
    with _ONE_AT_A_TIME:
        return ast.parse(text, name)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """A program with its tests and limits. Raises ValueError if there is nothing to test or a limit is not positive."""

    source: str
    tests: Sequence[str] = ()
    """Assert statements, or texts that define HumanEval's `check(candidate)` (then with entry_point)."""
    setup: str = ""
    """Run with the tests, after the program, which cannot replace what it binds, except the stubs of a prompt."""
    entry_point: str | None = None
    """The function under test, or an expression for it (`Solution().add`); without it, whatever names the tests use."""
    stdin_tests: Sequence[tuple[str, str]] | None = None
    """(input, expected output) pairs: the source runs as a script, once for each."""
    stdin_compare: str = "lines"
    """How outputs are compared. `lines` ignores blanks at the end of a line and empty lines at the end; `tokens`
    ignores all blanks and line breaks. Tokens are compared as text, unless the expected one has a decimal point and
    either number has three decimals or more: then they may differ by 1e-6 (absolute, or relative above 1). With
    `numbers`, so may any number from an answer with a point or an exponent; a whole answer must be met exactly."""
    checker: str = ""
    """For scripts with several right outputs: Python that defines `check(input, expected, output)`, which says whether
    an output is right. It runs apart from the program, for each output in a process of its own."""
    cpu_seconds: float = 2.0
    """CPU seconds for each test, and for loading the source."""
    wall_seconds: float | None = None
    """Wall-clock backstop for the same; None: 5 × cpu_seconds + 1. For programs that sleep, not for slow machines.

    All of a program's tests together may take three times that, and five times the CPU seconds they use; the rest time
    out."""
    memory_mb: int = 512
    """MiB of address space beyond the interpreter's own."""
    fresh_per_test: bool = False
    """Give every test its own candidate process, so that no state passes between tests."""
    test_order_seed: int | None = None
    """Run the tests in an order drawn with this seed, so that answers cannot be keyed to the order. None: as given."""
    truncated: bool = False
    """The response that holds the source was cut off. The program still runs; a failing verdict says `truncated`."""

    def __post_init__(self) -> None:
        if not self.tests and not self.stdin_tests:
            raise ValueError("a program needs tests or stdin_tests")
        if self.stdin_compare not in COMPARISONS:
            raise ValueError(f"stdin_compare must be one of {', '.join(COMPARISONS)}, not {self.stdin_compare!r}")
        if (
            not self.cpu_seconds > 0
            or self.memory_mb <= 0
            or (self.wall_seconds is not None and self.wall_seconds <= 0)
        ):
            raise ValueError("cpu_seconds, wall_seconds and memory_mb must be positive")

    @property
    def wall_limit(self) -> float:
        """Wall-clock seconds for each test."""
        return 5 * self.cpu_seconds + 1 if self.wall_seconds is None else self.wall_seconds


@dataclasses.dataclass(frozen=True)
class TestOutcome:
    """The outcome of one test."""

    verdict: str
    """One of ERROR_TYPES."""
    cpu: float = 0.0
    """CPU seconds of the program during the test."""
    wall: float = 0.0
    """Wall-clock seconds of the test."""
    detail: str = ""
    """At most 200 characters."""
    trusted: bool = True
    """False for a test that ran in the program's own process, which could forge the outcome; and if it is foreign."""
    foreign: bool = False
    """It ran apart and failed after the program gave it an object of a package that its text does not name, or one to
    copy instead of data. It counts as failed whatever becomes of untrusted tests, or programs could avoid a score."""


@dataclasses.dataclass
class Usage:
    """What all processes of a program have used so far, failed attempts included."""

    cpu: float = 0.0
    peak_rss: int = 0
    stdout: str = ""
    stderr: str = ""

    def add(self, cpu: float, peak_rss: int, stdout: str, stderr: str) -> None:
        """Add what was used since."""
        self.cpu += cpu
        self.peak_rss = max(self.peak_rss, peak_rss)
        self.stdout = (self.stdout + stdout)[:_MAX_OUTPUT_CHARS]
        self.stderr = (self.stderr + stderr)[:_MAX_OUTPUT_CHARS]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of a program's tests."""

    pass_ratio: float | None
    """Accepted tests over all tests; None if the sandbox itself failed, which is no score and never zero."""
    error_type: str
    """One of ERROR_TYPES."""
    tests: tuple[TestOutcome, ...]
    """Outcomes in the order of Program.tests, then Program.stdin_tests."""
    exec_time: float = 0.0
    """CPU seconds of all the program's processes."""
    wall_time: float = 0.0
    """Seconds from when a worker takes the program to its verdict."""
    peak_rss: int = 0
    """Bytes; the interpreter's own resident memory is included."""
    stdout: str = ""
    """At most 64 KiB."""
    stderr: str = ""
    """At most 64 KiB."""
    trusted_compare: bool = True
    """Whether all test outcomes are trusted."""
    isolation: str = ""
    """The pool's min_isolation and the layers in force: `standard:namespaces+root+uid+landlock+seccomp+rlimits`."""


def weighed(verdict: Verdict, untrusted: str) -> Verdict:
    """The verdict with its untrusted tests counted as they came out (accept) or as failed (zero), or no score (drop).

    The texts of the tests decide which are untrusted, so all programs of a problem are treated alike. Those that are
    untrusted by a program's own doing (foreign) have failed, and change nothing. Raises ValueError.
    """
    if untrusted not in UNTRUSTED:
        raise ValueError(f"untrusted must be one of {', '.join(UNTRUSTED)}, not {untrusted!r}")
    ran_apart = all(outcome.trusted or outcome.foreign for outcome in verdict.tests)
    if untrusted == "accept" or ran_apart or verdict.pass_ratio is None:
        return verdict
    if untrusted == "drop":
        return dataclasses.replace(verdict, pass_ratio=None, error_type="untrusted")
    tests = tuple(
        dataclasses.replace(outcome, verdict="wrong_answer", detail="not trusted")
        if outcome.verdict == "accepted" and not outcome.trusted
        else outcome
        for outcome in verdict.tests
    )
    pass_ratio, error_type = classify(tests, verdict.error_type == "truncated")
    return dataclasses.replace(verdict, tests=tests, pass_ratio=pass_ratio, error_type=error_type)


def classify(outcomes: Sequence[TestOutcome], truncated: bool) -> tuple[float | None, str]:
    """(pass_ratio, error_type) of a program with these outcomes."""
    worst = min((outcome.verdict for outcome in outcomes), key=ERROR_TYPES.index)
    if worst == "internal_error":
        return None, worst
    ratio = sum(outcome.verdict == "accepted" for outcome in outcomes) / len(outcomes)
    return ratio, "truncated" if truncated and worst != "accepted" else worst
