"""Judges the reference solutions of a code set before a model: if they fail, a score would measure the set.

Covered: every row with a solution, graded like a response, within the same limits. Not covered: whether the tests tell
a right program from a wrong one (`ares data check`).
"""

from collections.abc import Collection

from ares.data import DataError, Problems
from ares.grading.code import COMPLETION
from ares.grading.grader import Grader

_SHOWN = 20


def check_references(
    grader: Grader, problems: Problems, known_failures: Collection[str] = ()
) -> dict[str, int | list[str]]:
    """How many reference solutions there are, how many are accepted, and which of the known failures are not.

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
    known = [name for name in failed["id"] if name in known_failures]
    others = [
        f"{name} ({why})"
        for name, why in zip(failed["id"], failed["error_type"], strict=True)
        if name not in known_failures
    ]
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        raise DataError(
            f"{problems.source}: {len(others)} of {len(rows)} reference solutions fail their own tests, so no "
            f"model is scored: {', '.join(others[:_SHOWN])}{more}. Why: ares data check --code"
        )
    return {"solutions": len(rows), "accepted": len(rows) - len(failed), "known_failures": known}
