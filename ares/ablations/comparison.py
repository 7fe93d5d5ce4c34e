"""Choose the numbers that are compared: finished children, their values by measure, differences from a baseline.

Covered: also values by held-out problem where these are known. Not covered: the statistics
(ares/ablations/statistics.py), which rows become which number (ares/ablations/measures.py), what is said of them
(ares/ablations/wording.py).
"""

import numpy as np
import pandas as pd

from ares.ablations.measures import Measure, find_compared_tokens, find_finished, list_measures, weigh
from ares.ablations.rows import AblationRows, ChildRows
from ares.ablations.statistics import Differences, add_problems_test, add_skew_test, pair

START = ("model.path", "data.train")
"""Settings of which children of one seed must share at least one to be paired."""


def find_primary(ablation: AblationRows) -> Measure:
    """The primary measure."""
    return list_measures(ablation.definition.primary, [])[0]


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


def find_strangers(ablation: AblationRows) -> list[str]:
    """Variants that share neither weights nor problems with the baseline."""
    settings = {child.variant: child.settings for child, _ in find_finished(ablation)}
    base = settings.get(str(ablation.definition.baseline), {})
    return [variant for variant, of in settings.items() if all(of.get(name) != base.get(name) for name in START)]


def compare(ablation: AblationRows, measure: Measure) -> Differences:
    """Every variant that can be paired with the baseline, against it.

    A metric that was named beforehand also gets the second test of ares/ablations/statistics.py.
    """
    differences = _subtract_baseline(ablation, find_values(ablation, measure))
    found = {variant: pair(of.tolist()) for variant, of in differences.items()}
    if measure in (find_primary(ablation), *list_margin_measures(ablation)):
        split = {(child.variant, child.seed): split_by_problem(measure, child, weights)
                 for child, weights in find_weights(ablation, measure)}  # fmt: skip
        for variant, of in differences.items():
            key = (ablation.definition.name, measure.metric, measure.how, variant)
            pairs = {seed: split[variant, seed] - split[str(ablation.definition.baseline), seed] for seed in of.index}
            table = pd.DataFrame(pairs).dropna().sort_index().T.to_numpy()
            has_problems = table.shape[1] > 1 and found[variant].p_seeds is not None
            found[variant] = (
                add_problems_test(found[variant], table, key) if has_problems else add_skew_test(found[variant])
            )
    return Differences(str(ablation.definition.baseline), found)


def list_margin_measures(ablation: AblationRows) -> list[Measure]:
    """The measures of `no_worse`."""
    return [Measure(metric, metric, "last") for metric in ablation.definition.no_worse]


def compare_margins(ablation: AblationRows) -> dict[str, Differences]:
    """The metrics of `no_worse` that have a difference from the baseline."""
    found = {measure.metric: compare(ablation, measure) for measure in list_margin_measures(ablation)}
    return {metric: differences for metric, differences in found.items() if differences.of}


def compare_changes(ablation: AblationRows) -> Differences | None:
    """The interaction that the definition names, if it can be told of any variant.

    ln(variant / baseline) of the first metric, less that of the second.
    """
    if ablation.definition.interaction is None:
        return None
    logs = []
    for metric in ablation.definition.interaction:
        values = find_values(ablation, Measure(metric, metric, "last"))
        logs.append(_subtract_baseline(ablation, values.where(values > 0).apply(np.log)))
    found = {}
    for variant in (name for name in logs[0] if name in logs[1]):
        if len(of := (logs[0][variant] - logs[1][variant]).dropna()):
            found[variant] = add_skew_test(pair(of.tolist()))
    return Differences(str(ablation.definition.baseline), found) if found else None


def _subtract_baseline(ablation: AblationRows, values: pd.DataFrame) -> dict[str, pd.Series]:
    """Each variant's differences by seed, for the seeds that it and the baseline have, if there are any."""
    baseline = str(ablation.definition.baseline)
    if baseline not in values:
        return {}
    others = [name for name in values if name != baseline and name not in find_strangers(ablation)]
    differences = {str(name): (values[name] - values[baseline]).dropna() for name in others}
    return {variant: of for variant, of in differences.items() if len(of)}


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
