"""Evaluations: a policy measured on held-out problems or published suites, and two evaluations compared.

Covered: held-out sets, published suites, estimates with intervals, paired comparisons. Not covered: sampling and
grading, which are the phases of training (tasks/), their order (flows/evaluate.py).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ares.evaluation.request import EvaluationRequest
from ares.evaluation.suites import SUITES

if TYPE_CHECKING:
    from ares.evaluation.comparison import digest_problems
    from ares.evaluation.estimates import finish
    from ares.evaluation.evaluation import Evaluation, policy_of
    from ares.evaluation.paired import DRAWS, LEVEL, Estimate, estimate, p_of_draws


def __getattr__(name: str) -> Any:
    """Load what needs torch or scipy lazily: a worker that reads the form of `ares-eval` needs neither."""
    for module in ("paired", "comparison", "evaluation", "estimates"):
        if hasattr(found := import_module(f"{__name__}.{module}"), name):
            return getattr(found, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
