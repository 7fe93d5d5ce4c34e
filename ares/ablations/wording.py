"""The verdict of an ablation in words: the claim on its primary metric, margins, the interaction, what is left out."""

import math
from collections.abc import Mapping, Sequence

from ares.ablations.comparison import (
    compare,
    compare_changes,
    compare_margins,
    find_primary,
    find_strangers,
    find_values,
)
from ares.ablations.measures import find_finished
from ares.ablations.rows import AblationRows
from ares.ablations.statistics import (
    MOST_SEEDS,
    Difference,
    Differences,
    count_seeds_needed,
    find_winner,
    judge,
)
from ares.evaluation import estimate


def conclude(ablation: AblationRows) -> str:
    """The verdict, in one paragraph."""
    definition, values = ablation.definition, find_values(ablation, find_primary(ablation))
    primary, maximise = definition.primary, definition.maximise
    numbers = {str(variant): of.dropna().tolist() for variant, of in values.items()}
    if definition.baseline is None:
        told = [tell_winner(numbers, primary, maximise)]
    else:
        told = [tell_differences(compare(ablation, find_primary(ablation)), primary, maximise)]
        told += [_tell_margin(metric, definition.no_worse[metric], differences)
                 for metric, differences in compare_margins(ablation).items()]  # fmt: skip
        if definition.interaction is not None and (changes := compare_changes(ablation)) is not None:
            told.append(_tell_changes(*definition.interaction, changes))
        for stranger in find_strangers(ablation):
            both = {name: numbers[name] for name in (definition.baseline, stranger) if name in numbers}
            told.append(
                f"{stranger} shares neither weights nor problems with {definition.baseline}: unpaired. "
                + tell_winner(both, primary, maximise)
            )
    known = values.stack().dropna().index
    left_out = [f"{child.variant} seed {child.seed}" for child, _ in find_finished(ablation)
                if (child.seed, child.variant) not in known]  # fmt: skip
    if left_out:  # without a run that diverged its variant looks better, so the verdict must say so
        told.append(f"Left out, since {primary} is not a number: {', '.join(left_out)}.")
    return " ".join(told)


def tell_differences(against: Differences, metric: str, maximise: bool = True) -> str:
    """What can be said of each variant against the baseline."""
    if not against.of:
        return (
            f"Nothing can be compared with {against.baseline} yet: no seed has {metric} of it and of another variant."
        )
    told = "; ".join(_tell_difference(against, name, maximise) for name in against.of)
    return f"{metric} against {against.baseline}, paired by seed: {told}."


def _tell_difference(against: Differences, name: str, maximise: bool) -> str:
    difference = against.of[name]
    shown = f"{difference.mean:+.3f}"
    if difference.interval is None:
        return f"{name} {shown}, not shown: there is only one seed"
    shown += " [{:+.3f}, {:+.3f}]".format(*difference.interval)
    if name not in against.adjusted:
        return f"{name} {shown}, not shown: every seed differs by the same, so the spread is unknown"
    if difference.has_problems and difference.second is not None:
        shown += ", over problems too [{:+.3f}, {:+.3f}]".format(*difference.second)
    shown += f", p {against.adjusted[name]:.3f}"
    if against.claims(name):
        return f"{name} is {'better' if (difference.mean > 0) == maximise else 'worse'}: {shown}"
    needed = count_seeds_needed(difference, len(against.of))
    if needed is None:
        return f"{name} {shown}, not shown (it would take more than {MOST_SEEDS} seeds: they are level)"
    if needed > len(difference.by_seed):
        return f"{name} {shown}, not shown (it might take about {needed} seeds)"
    # The t test alone would claim it.
    return f"{name} {shown}, not shown ({'more held-out problems' if difference.has_problems else 'more seeds'} might)"


def _tell_margin(metric: str, margin: float, against: Differences) -> str:
    told = []
    for variant, difference in against.of.items():
        interval = "" if difference.widest is None else " [{:+.3f}, {:+.3f}]".format(*difference.widest)
        told.append(f"{variant} {judge(difference, margin)} ({difference.mean:+.3f}{interval})")
    return f"{metric}, by at most {margin:g} lower: {'; '.join(told)}."


def _tell_changes(first: str, second: str, changes: Differences) -> str:
    """How much more the first metric changes than the second, for every variant."""
    told = []
    for variant, difference in changes.of.items():
        p = changes.adjusted.get(variant)
        claim = "not shown" if not changes.claims(variant) else "more" if difference.mean > 0 else "less"
        told.append(f"{variant} {_tell_percent(difference)}{'' if p is None else f', p {p:.3f}'}: {claim}")
    return f"{first} against {second}, both as shares of the baseline's: {'; '.join(told)}."


def _tell_percent(difference: Difference) -> str:
    """A difference of logarithms as a change in percent, with its t interval."""
    mean, *ends = (100 * math.expm1(value) for value in (difference.mean, *(difference.interval or ())))
    return f"{mean:+.1f} %" + (" [{:+.1f}, {:+.1f}]".format(*ends) if ends else "")


def tell_winner(values: Mapping[str, Sequence[float]], metric: str, maximise: bool = True) -> str:
    """Which of several variants wins, or why none does."""
    if len(values) < 2:
        return f"Nothing can be compared yet: fewer than two variants have a finished run with {metric}."
    estimates = {name: estimate(of) for name, of in values.items()}
    told = {
        name: f"{name} {each.mean:.3f} " + ("(one seed)" if each.low is None else f"[{each.low:.3f}, {each.high:.3f}]")
        for name, each in estimates.items()
    }
    if (winner := find_winner(values, maximise)) is not None:
        rest = "; ".join(text for name, text in told.items() if name != winner)
        side = "above" if maximise else "below"
        return f"{winner} wins on {metric}: its interval, {told[winner]}, lies {side} every other one ({rest})."
    why = "intervals overlap"
    if alone := [name for name, each in estimates.items() if each.low is None]:
        why = f"an interval needs two seeds, and there is only one of {', '.join(alone)}"
    elif unknown := [name for name, each in estimates.items() if not each.half_width]:
        why = f"all seeds of {', '.join(unknown)} gave the same value, so its spread is unknown"
    return f"No winner can be named on {metric}: {why} ({'; '.join(told.values())})."
