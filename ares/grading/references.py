"""Reference solutions of a code set, judged before a model is: where they fail, a score would measure the set.

Covered: every row that brings a solution, graded as a response is, within the same limits. Not covered: whether the
tests tell a right program from a wrong one (`ares data check`).
"""

from ares.data import DataError, Problems
from ares.grading.grader import Grader

KNOWN = ("HumanEval/32",)
"""Problems of published sets whose own reference fails their tests (HumanEval+ 0.1)."""
_SHOWN = 20


def check_references(grader: Grader, problems: Problems) -> dict[str, int | list[str]]:
    """How many reference solutions there are, how many are accepted, and which known ones are not.

    Raises DataError where there is none, or where others than those in KNOWN are not accepted, naming them.
    """
    rows = problems.frame[problems.frame["answer"] != ""]
    if rows.empty:
        raise DataError(f"{problems.source}: --sanity needs reference solutions, and no row has one")
    responses = [f"```python\n{solution}\n```\n" for solution in rows["answer"]]
    grades = grader.grade(rows.assign(response=responses, slot=range(len(rows)), sample=0))
    failed = grades[grades["error_type"] != "accepted"]
    known = [name for name in failed["id"] if str(name).endswith(KNOWN)]
    others = [
        f"{name} ({why})"
        for name, why in zip(failed["id"], failed["error_type"], strict=True)
        if not str(name).endswith(KNOWN)
    ]
    if others:
        more = f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else ""
        raise DataError(
            f"{problems.source}: {len(others)} of {len(rows)} reference solutions fail their own tests, so that no "
            f"model is scored: {', '.join(others[:_SHOWN])}{more}. Why: ares data check --code"
        )
    return {"solutions": len(rows), "accepted": len(rows) - len(failed), "known_failures": known}
