"""Compare variants with a baseline: the differences of their numbers, paired by seed.

Covered: also values by held-out problem where these are known. Not covered: the statistics
(ares/ablations/statistics.py), which rows become which number (ares/ablations/measures.py), what is said of them
(ares/ablations/wording.py).
"""

import numpy as np
import pandas as pd

from ares.ablations.measures import Measure, find_numbers, find_primary, weigh
from ares.ablations.rows import CHILD, AblationRows
from ares.ablations.statistics import Differences, add_problems_test, add_skew_test, pair


def compare(ablation: AblationRows, measure: Measure) -> Differences:
    """Every variant that has a seed in common with the baseline, against it.

    A metric that was named beforehand also gets the second test of ares/ablations/statistics.py.
    """
    against = ablation.definition.against
    differences = _subtract_baseline(ablation, find_numbers(ablation, measure))
    found = {variant: pair(of.tolist()) for variant, of in differences.items()}
    if measure in (find_primary(ablation), *list_margin_measures(ablation)):
        by_problem = split_by_problem(ablation, measure)
        for variant, of in differences.items():
            one, other = (by_problem.reindex([(name, seed) for seed in of.index]) for name in (variant, against))
            table = (one - other.to_numpy()).dropna(axis=1).sort_index(axis=1).to_numpy()
            if table.shape[1] > 1 and found[variant].p is not None:
                key = (ablation.definition.name, measure.metric, measure.how, variant)
                found[variant] = add_problems_test(found[variant], table, key)
            else:
                found[variant] = add_skew_test(found[variant])
    return Differences(against, found, len(ablation.definition.variants) - 1)


def list_margin_measures(ablation: AblationRows) -> list[Measure]:
    """The measures of `no_worse`."""
    return [Measure(metric, metric, "last") for metric in ablation.definition.no_worse]


def compare_changes(ablation: AblationRows, interaction: tuple[str, str]) -> Differences:
    """Of every variant with both metrics: ln(variant / baseline) of the first one, less that of the second."""
    changes = []
    for metric in interaction:
        numbers = find_numbers(ablation, Measure(metric, metric, "last"))
        changes.append(_subtract_baseline(ablation, np.log(numbers[numbers > 0])))
    first, second = changes
    differences = {variant: (first[variant] - second[variant]).dropna() for variant in first if variant in second}
    found = {variant: add_skew_test(pair(of.tolist())) for variant, of in differences.items() if len(of)}
    return Differences(ablation.definition.against, found, len(ablation.definition.variants) - 1)


def _subtract_baseline(ablation: AblationRows, numbers: pd.Series) -> dict[str, pd.Series]:
    """Each variant's differences by seed, for the seeds that it and the baseline have, if there are any."""
    against = ablation.definition.against
    of_each = {str(variant): of.droplevel("variant") for variant, of in numbers.groupby("variant", sort=False)}
    if against not in of_each:
        return {}
    baseline = of_each.pop(against)
    return {variant: known for variant, of in of_each.items() if len(known := of.sub(baseline).dropna())}


def split_by_problem(ablation: AblationRows, measure: Measure) -> pd.DataFrame:
    """The number of each child for each held-out problem, by variant and seed; NaN where some of its rows are not known
    by problem.

    Behind `val/accuracy` are all problems, behind `val/SET/accuracy` those called `SET/…`.
    """
    of_set = measure.metric.removeprefix("val/").removesuffix("accuracy")
    weights = weigh(ablation, measure)
    is_accuracy = measure.metric == f"val/{of_set}accuracy"
    behind = [name for name in ablation.problems if is_accuracy and str(name).startswith(of_set)]
    problems = ablation.problems[behind].reindex(weights.index)
    return problems.mul(weights, axis=0).groupby(CHILD).sum(skipna=False)
