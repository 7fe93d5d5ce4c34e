"""Grading programs: extracted from responses, judged in the sandbox while other responses are still being generated.

Covered: extracting a response's program; where it is judged (this machine, the nodes of a Ray cluster, rented
machines); one verdict for identical programs of a step; reference solutions. Not covered: what a
verdict is worth (rewards/shaping.py), reading tests from data sets (ares/data/code.py), whether tests tell a right
program from a wrong one (`ares data check`).
"""

import logging
import os
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pandas as pd

from ares.config import RewardConfig
from ares.data import DataError, Problems, named, packages_of, program
from ares.engines import until_stop
from ares.grading.functions import FunctionScore
from ares.grading.grader import ID_COLUMNS, Grader
from rewards.code import code_format_score, extract_code, no_code_verdict
from rewards.thinking import with_opening_tag, without_thinking
from sandbox import Program, SandboxPool, Verdict, is_forgeable, packages, weighed
from sandbox.providers import open_sandbox

if TYPE_CHECKING:
    from ares.grading.cluster_sandbox import ClusterSandbox

logger = logging.getLogger(__name__)
COMPLETION = ["begun", "stops"]
"""Columns of problems whose response continues a program, instead of holding one in a code block."""
_QUEUED_PER_WORKER = 2
"""Programs in a pool per worker: more than the one it judges, so that no worker waits for its next."""
_LOOKED_AT = 1000
"""Problems whose tests are read before a run, so that a large set takes a second or two."""


class CodeGrader(Grader):
    """reward.kind=code: judges the programs in responses. `anticipate` starts on those that have finished."""

    def __init__(self, config: RewardConfig) -> None:
        self.config, self._max_unscored = config.code, config.max_unscored
        self._verdicts: dict[Program, Future[Verdict]] = {}
        self._pool: SandboxPool | ClusterSandbox | None = None
        self._packages = self.config.packages

    def expect(self, *problems: pd.DataFrame | None) -> str:
        """Find the packages that programs import; returns their versions and digest.

        Raises PackageError; DataError if too many problems would have no score.
        """
        rows = [row for frame in problems if frame is not None for row in frame.to_dict("records")]
        self._packages = packages_of(self.config.packages, rows)
        self._tell_of_forgeable(rows)
        environment = packages.find(self._packages)
        return f"{' '.join(environment.versions)} {environment.digest}" if environment.names else ""

    def _tell_of_forgeable(self, rows: list[dict[Any, Any]]) -> None:
        """Warn of problems with tests that run in the program's own process."""
        looked_at = rows[:: -(-len(rows) // _LOOKED_AT) or 1]
        forgeable = [row["id"] for row in looked_at if is_forgeable(program(row, ""), self._packages)]
        if not forgeable:
            return
        told = (
            f"{len(forgeable)} of {len(looked_at)} problems looked at, such as {forgeable[0]}, have tests that run in "
            "the program's own process, where it can forge the outcome (docs/sandbox.md)"
        )
        if self.config.untrusted == "drop" and len(forgeable) > self._max_unscored * len(looked_at):
            raise DataError(
                f"{told}. With reward.code.untrusted=drop they would have no score, and no more than "
                f"reward.max_unscored={self._max_unscored} may have none: leave them out, or set "
                "reward.code.untrusted=accept"
            )
        logger.warning("%s: reward.code.untrusted=%s", told, self.config.untrusted)

    def start(self) -> None:
        """Start the sandbox, on the Ray cluster if there is one. Raises SandboxUnavailable, with the remedy."""
        config = self.config
        workers = config.workers or os.cpu_count() or 1
        if config.provider == "local" and os.environ.get("RAY_ADDRESS"):
            from ares.grading.cluster_sandbox import ClusterSandbox

            self._pool = cluster = ClusterSandbox(config.workers, config.min_isolation, self._packages)
            workers = cluster.num_workers
        else:
            self._pool = open_sandbox(config.provider, workers, config.min_isolation, self._packages)
        self._threads = ThreadPoolExecutor(workers * _QUEUED_PER_WORKER, thread_name_prefix="judging")

    def anticipate(self, rows: pd.DataFrame) -> None:
        """Start judging rows: responses with the columns of their problems."""
        for row in rows.to_dict("records"):
            self._submit(row)

    def grade(self, rows: pd.DataFrame) -> pd.DataFrame:
        """accuracy, format, pass_ratio, error_type, test_outcomes, trusted and exec_time (CPU seconds) of each row.

        A program that the sandbox failed to judge has no accuracy and no pass ratio (null), never zero. A program is
        not trusted if one of its tests ran in its own process.
        """
        judged = [future.result() for future in [self._submit(row) for row in rows.to_dict("records")]]
        verdicts = [weighed(verdict, self.config.untrusted) for verdict in judged]
        ratio = pd.Series([verdict.pass_ratio for verdict in verdicts], dtype="Float64", index=rows.index)
        all_passed = (ratio == 1.0).astype("Float64")  # stays null where there is no ratio
        outcomes = [[test.verdict for test in verdict.tests] for verdict in verdicts]
        return rows[ID_COLUMNS].assign(
            accuracy=ratio if self.config.accuracy == "pass_ratio" else all_passed,
            format=[code_format_score(_answer(row)) for row in rows.to_dict("records")],
            pass_ratio=ratio,
            error_type=[verdict.error_type for verdict in verdicts],
            test_outcomes=pd.Series(outcomes, index=rows.index, dtype=object),
            trusted=[verdict.trusted_compare for verdict in verdicts],
            exec_time=[verdict.exec_time for verdict in verdicts],
        )

    def __call__(self, rows: pd.DataFrame, first: bool = False) -> list[FunctionScore]:
        """As one of several kinds of reward: the accuracy of each program, and beside it how it ended and the share of
        tests that it passed."""
        table, scores = self.grade(rows), []
        for accuracy, ending, ratio in zip(table["accuracy"], table["error_type"], table["pass_ratio"], strict=True):
            if pd.isna(accuracy):  # not judged, or by tests that a program can forge
                scores.append(FunctionScore(extras={"error_type": ending}, failed=True))
            else:
                scores.append(FunctionScore(float(accuracy), {"error_type": ending, "pass_ratio": float(ratio)}))
        return scores

    def forget(self) -> None:
        """Drop the verdicts kept for identical programs; judging under way continues."""
        # A copy: samples of a later step may be graded meanwhile, in another thread.
        self._verdicts = {key: verdict for key, verdict in list(self._verdicts.items()) if not verdict.done()}

    def close(self) -> None:
        """End the sandbox, if it was started."""
        if self._pool is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._pool.close()

    def _submit(self, row: dict[Any, Any]) -> "Future[Verdict]":
        source = written(row)
        if source is None:
            judged: Future[Verdict] = Future()
            judged.set_result(no_code_verdict(len(row["test_cases"]) + len(row["stdin_tests"])))
            return judged
        asked = program(row, source, self.config.cpu_seconds, self.config.memory_mb)
        known = self._verdicts  # `forget` puts another in its place
        if asked not in known or (known[asked].done() and known[asked].exception()):  # a retry asks the sandbox again
            assert self._pool is not None, "the sandbox was not started"
            known[asked] = self._threads.submit(lambda pool: pool.run([asked])[0], self._pool)
        return known[asked]


def written(row: Mapping[str, Any]) -> str | None:
    """A response's program: its code block after the thinking or, in a completion form, what it continues, up to the
    first stop string.

    row: has `begun` (the program's text before the response) and `stops` if the prompt was in that form.
    """
    begun = row.get("begun")
    if not isinstance(begun, str):
        return extract_code(_answer(row))
    return begun + until_stop(row["response"], row["stops"]) + "\n"


def _answer(row: Mapping[Any, Any]) -> str:
    # None where a program is judged without having been asked for; an episode's response has its tag.
    prompt = None if "episode_error" in row else row.get("prompt")
    return without_thinking(with_opening_tag(prompt if isinstance(prompt, str) else "", row["response"]))


def check_references(
    grader: Grader, problems: Problems, known_failures: Collection[str] = ()
) -> dict[str, int | list[str]]:
    """Judge the reference solutions of a code set before a model: if they fail, a score would measure the set.

    Returns how many there are, how many are accepted, and which of the known failures are not.

    known_failures: ids of problems whose own reference is known to fail. Raises DataError if there is no reference, or
    if any others are not accepted, naming them.
    """
    rows = problems.frame[problems.frame["answer"] != ""]
    if rows.empty:
        raise DataError(f"{problems.source}: --sanity needs reference solutions, and no row has one")
    rows = rows.drop(columns=COMPLETION, errors="ignore")  # a reference is a whole program, whatever the form
    responses = [f"```python\n{solution}\n```\n" for solution in rows["answer"]]
    grades = grader.grade(rows.assign(response=responses, slot=range(len(rows)), sample=0))
    failed = grades[grades["error_type"] != "accepted"]
    is_known = failed["id"].isin(known_failures)
    others = (failed["id"] + " (" + failed["error_type"] + ")")[~is_known].tolist()
    if others:
        counted = f"{len(others)} of {len(rows)} reference solutions fail their own tests, so no model is scored"
        raise DataError(f"{problems.source}: {named(others, counted)}. Why: ares data check --code")
    accepted = len(rows) - len(failed)
    return {"solutions": len(rows), "accepted": accepted, "known_failures": failed["id"][is_known].tolist()}
