"""Evaluations: a policy measured on held-out problems or published suites, and two evaluations compared.

Covered: held-out sets, published suites, estimates with intervals, paired comparisons. Not covered: sampling and
grading, which are the phases of training (tasks/), their order (flows/evaluate.py).
"""

from typing import TYPE_CHECKING

from ares.lazy import exports

if TYPE_CHECKING:
    from ares.evaluation.comparison import digest_problems
    from ares.evaluation.estimates import finish
    from ares.evaluation.evaluation import Evaluation, policy_of
    from ares.evaluation.paired import DRAWS, LEVEL, Estimate, estimate, p_of_draws
    from ares.evaluation.request import EvaluationRequest
    from ares.evaluation.suites import SUITES
else:
    __getattr__ = exports(__name__)
