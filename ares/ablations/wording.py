"""The verdict of an ablation in words: the claim on its primary metric, margins, the interaction, what is left out."""

import math
from collections.abc import Sequence

from ares.ablations.comparison import (
    Measure,
    compare,
    compare_changes,
    cut_rows,
    find_numbers,
    find_primary,
    list_margin_measures,
)
from ares.ablations.definition import AREA
from ares.ablations.rows import AblationRows
from ares.ablations.statistics import MOST_SEEDS, Difference, Differences, count_seeds_needed, judge


def conclude(ablation: AblationRows) -> str:
    """The verdict, in one paragraph."""
    definition, measure = ablation.definition, find_primary(ablation)
    margins, interaction = list_margin_measures(ablation), definition.interaction
    told = [tell_differences(compare(ablation, measure), definition.primary, definition.maximise)]
    for margin in margins:
        told.append(_tell_margin(margin.metric, definition.no_worse[margin.metric], compare(ablation, margin)))
    if interaction is not None:
        told.append(_tell_changes(*interaction, compare_changes(ablation, interaction)))
    told += [_tell_left_out(ablation, each) for each in dict.fromkeys([measure, *margins])]
    told += [_tell_left_out(ablation, Measure(metric, metric, "last"), 0.0) for metric in interaction or ()]
    if ablation.logged and (absent := definition.judged - ablation.logged):
        told.append(f"No child has logged {', '.join(sorted(absent))} yet; if it is mistyped, correct the file.")
    return " ".join(filter(None, told))


def _tell_left_out(ablation: AblationRows, measure: Measure, above: float = -math.inf) -> str:
    """The finished children without a number above a bound. Without one that diverged, or whose metric fell to zero,
    its variant looks better, so the verdict must say so."""
    numbers = find_numbers(ablation, measure)
    if numbers.empty:
        return ""
    known = numbers[numbers > above].index
    finished = cut_rows(ablation).droplevel("step").index.unique()
    left_out = [f"{variant} seed {seed}" for variant, seed in finished.difference(known, sort=False)]
    name = f"{AREA}{measure.metric}" if measure.how == "area" else measure.metric
    why = "no number" if math.isinf(above) else f"not above {above:g}"
    return f"Left out, since {name} was {why}: {', '.join(left_out)}." if left_out else ""


def tell_differences(against: Differences, metric: str, maximise: bool = True) -> str:
    """What can be said of each variant against the baseline."""
    if not against.of:
        return _tell_nothing(against, metric)
    told = "; ".join(_tell_difference(against, name, maximise) for name in against.of)
    return f"{metric} against {against.baseline}, paired by seed: {told}."


def _tell_nothing(against: Differences, metrics: str) -> str:
    return f"Nothing can be compared with {against.baseline} yet: no seed has {metrics} of it and of another variant."


def _tell_difference(against: Differences, name: str, maximise: bool) -> str:
    difference = against.of[name]
    shown = f"{difference.mean:+.3f}"
    if difference.interval is None:
        return f"{name} {shown}, not shown: there is only one seed"
    shown += _tell_interval(difference.interval)
    if name not in against.adjusted:
        return f"{name} {shown}, not shown: every seed differs by the same, so the spread is unknown"
    if difference.has_problems:
        shown += f", over problems too{_tell_interval(difference.second)}"
    shown += f", p {against.adjusted[name]:.3f}"
    if against.claims(name):
        return f"{name} is {'better' if (difference.mean > 0) == maximise else 'worse'}: {shown}"
    needed = count_seeds_needed(difference, against.variants)
    if needed is None:
        why = f"it would take more than {MOST_SEEDS} seeds: they are level"
    elif needed > len(difference.by_seed):
        why = f"it might take about {needed} seeds"
    else:  # the t test alone would claim it
        why = f"more {'held-out problems' if difference.has_problems else 'seeds'} might"
    return f"{name} {shown}, not shown ({why})"


def _tell_interval(ends: Sequence[float] | None, digits: int = 3) -> str:
    return f" [{ends[0]:+.{digits}f}, {ends[1]:+.{digits}f}]" if ends else ""


def _tell_margin(metric: str, margin: float, against: Differences) -> str:
    told = [
        f"{variant} {judge(difference, margin)} ({difference.mean:+.3f}{_tell_interval(difference.widest)})"
        for variant, difference in against.of.items()
    ]
    return f"{metric}, by at most {margin:g} lower: {'; '.join(told)}." if told else _tell_nothing(against, metric)


def _tell_changes(first: str, second: str, changes: Differences) -> str:
    """How much more the first metric changes than the second, for every variant."""
    told = []
    for variant, difference in changes.of.items():
        p = changes.adjusted.get(variant)
        claim = "not shown" if not changes.claims(variant) else "more" if difference.mean > 0 else "less"
        told.append(f"{variant} {_tell_percent(difference)}{'' if p is None else f', p {p:.3f}'}: {claim}")
    if not told:
        return _tell_nothing(changes, f"{first} and {second}, both above 0,")
    return f"{first} against {second}, both as shares of the baseline's: {'; '.join(told)}."


def _tell_percent(difference: Difference) -> str:
    """A difference of logarithms as a change in percent, with its t interval."""
    mean, *ends = (100 * math.expm1(value) for value in (difference.mean, *(difference.interval or ())))
    return f"{mean:+.1f} %{_tell_interval(ends, digits=1)}"
