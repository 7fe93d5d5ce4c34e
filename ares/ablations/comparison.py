"""Choose the numbers that are compared: finished children, their values by measure, differences from a baseline.

Covered: also values by held-out problem where these are known. Not covered: the statistics
(ares/ablations/statistics.py), which rows become which number (ares/ablations/measures.py), what is said of them
(ares/ablations/wording.py).
"""

import numpy as np
import pandas as pd

from ares.ablations.measures import Measure, find_compared_tokens, find_finished, find_primary, weigh
from ares.ablations.rows import AblationRows, ChildRows
from ares.ablations.statistics import Differences, add_problems_test, add_skew_test, pair


def find_weights(ablation: AblationRows, measure: Measure) -> list[tuple[ChildRows, pd.Series]]:
    """Each finished child with the weights of its rows in its number (ares/ablations/measures.py)."""
    tokens = find_compared_tokens(ablation)
    return [(child, weigh(measure, child, end, tokens)) for child, end in find_finished(ablation)]


def find_values(ablation: AblationRows, measure: Measure) -> pd.DataFrame:
    """The numbers of the finished children, a row a seed and a column a variant that has any; NaN: there is none."""
    values: dict[str, dict[int, float]] = {}
    for child, weights in find_weights(ablation, measure):
        if len(weights):
            rows = child.rows[measure.metric][weights.index]
            values.setdefault(child.variant, {})[child.seed] = float((rows * weights).sum())
    return pd.DataFrame(values)


def compare(ablation: AblationRows, measure: Measure) -> Differences:
    """Every variant that has a seed in common with the baseline, against it.

    A metric that was named beforehand also gets the second test of ares/ablations/statistics.py.
    """
    against = ablation.definition.against
    differences = _subtract_baseline(ablation, find_values(ablation, measure))
    found = {variant: pair(of.tolist()) for variant, of in differences.items()}
    if measure in (find_primary(ablation), *list_margin_measures(ablation)):
        split = {child.key: split_by_problem(measure, child, weights)
                 for child, weights in find_weights(ablation, measure)}  # fmt: skip
        for variant, of in differences.items():
            pairs = {seed: split[variant, seed] - split[against, seed] for seed in of.index}
            table = pd.DataFrame(pairs).dropna().sort_index().T.to_numpy()
            if table.shape[1] > 1 and found[variant].p_seeds is not None:
                key = (ablation.definition.name, measure.metric, measure.how, variant)
                found[variant] = add_problems_test(found[variant], table, key)
            else:
                found[variant] = add_skew_test(found[variant])
    return Differences(against, found)


def list_margin_measures(ablation: AblationRows) -> list[Measure]:
    """The measures of `no_worse`."""
    return [Measure(metric, metric, "last") for metric in ablation.definition.no_worse]


def compare_changes(ablation: AblationRows, interaction: tuple[str, str]) -> Differences:
    """Of every variant with both metrics: ln(variant / baseline) of the first one, less that of the second."""
    changes = []
    for metric in interaction:
        values = find_values(ablation, Measure(metric, metric, "last"))
        changes.append(_subtract_baseline(ablation, values.where(values > 0).apply(np.log)))
    first, second = changes
    differences = {variant: (first[variant] - second[variant]).dropna() for variant in first if variant in second}
    found = {variant: add_skew_test(pair(of.tolist())) for variant, of in differences.items() if len(of)}
    return Differences(ablation.definition.against, found)


def _subtract_baseline(ablation: AblationRows, values: pd.DataFrame) -> dict[str, pd.Series]:
    """Each variant's differences by seed, for the seeds that it and the baseline have, if there are any."""
    against = ablation.definition.against
    if against not in values:
        return {}
    differences = values.drop(columns=against).sub(values[against], axis="index")
    return {str(variant): known for variant, of in differences.items() if len(known := of.dropna())}


def split_by_problem(measure: Measure, child: ChildRows, weights: pd.Series) -> pd.Series:
    """A child's number for each held-out problem; empty if some of its rows are not known by problem.

    Behind `val/accuracy` are all problems, behind `val/SET/accuracy` those called `SET/…`.
    """
    of_set = measure.metric.removeprefix("val/").removesuffix("accuracy")
    is_accuracy = measure.metric == f"val/{of_set}accuracy"
    if not is_accuracy or weights.empty or not weights.index.isin(child.problems.index).all():
        return pd.Series(dtype=float)
    problems = child.problems.loc[weights.index, child.problems.columns.str.startswith(of_set)]
    return (problems.T @ weights).dropna()
