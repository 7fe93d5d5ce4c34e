"""Choose the numbers that are compared, and state the verdict on the primary metric.

Covered: the finished children, their values by measure, differences from a baseline, by held-out problem where these
are known. Not covered: the statistics (ares/ablations/statistics.py, ares/ablations/paired.py), which row becomes which
number (ares/ablations/measures.py), how it is shown (ares/ablations/report.py).
"""

import math
from collections.abc import Iterator

import numpy as np

from ares.ablations.besides import Interaction, Margin, told_interaction, told_margin
from ares.ablations.measures import Measure, Value, compared_tokens, end_of, measures, value_of
from ares.ablations.paired import Difference, PairedDifferences, against, over_problems, paired, paired_verdict
from ares.ablations.rows import AblationRows, ChildRows
from ares.ablations.statistics import leader, verdict

START = ("model.path", "data.train")
"""Settings of which children of one seed must share at least one to be paired."""


def conclusion(ablation: AblationRows) -> str:
    """The verdict on the primary metric, in words."""
    definition, measure = ablation.definition, primary(ablation)
    numbers = {variant: [value.value for value in of] for variant, of in values(ablation, measure).items() if of}
    left_out = [f"{child.variant} seed {child.seed}" for child in _without_number(ablation, measure)]
    # Leaving out a run that diverged flatters its variant, so the verdict must say so.
    nan = [f"Left out, since {definition.primary} is not a number: {', '.join(left_out)}."] if left_out else []
    if definition.baseline is None:
        return " ".join([verdict(numbers, definition.primary, definition.maximise), *nan])
    told = [paired_verdict(against_baseline(ablation, measure), definition.primary, definition.maximise)]
    told += [told_margin(margin) for margin in margins(ablation) if margin.differences]
    told += [told_interaction(each) for each in interactions(ablation) if each.between.differences]
    for stranger in _strangers(ablation):
        both = {name: numbers[name] for name in (definition.baseline, stranger) if name in numbers}
        told.append(
            f"{stranger} shares neither weights nor problems with {definition.baseline}: unpaired. "
            + verdict(both, definition.primary, definition.maximise)
        )
    return " ".join([*told, *nan])


def primary(ablation: AblationRows) -> Measure:
    """The primary measure."""
    return measures(ablation.definition.primary, ablation.definition.maximise)[0]


def complete_children(ablation: AblationRows) -> dict[str, list[ChildRows]]:
    """The finished children of each variant that has any."""
    of = {variant: [child for child in ablation.of(variant) if end_of(ablation, child) is not None]
          for variant in ablation.definition.variants}  # fmt: skip
    return {variant: children for variant, children in of.items() if children}


def values(ablation: AblationRows, measure: Measure) -> dict[str, list[Value]]:
    """The numbers of each variant's finished children, by seed."""
    tokens = compared_tokens(ablation)
    return {
        variant: [
            value for child in children
            if (last := end_of(ablation, child)) is not None and (value := value_of(measure, child, last, tokens))
        ]
        for variant, children in complete_children(ablation).items()
    }  # fmt: skip


def _without_number(ablation: AblationRows, measure: Measure) -> list[ChildRows]:
    """Finished children for which the measure comes to no finite number."""
    known = {value.child.run_id for of in values(ablation, measure).values() for value in of}
    return [child for of in complete_children(ablation).values() for child in of if child.run_id not in known]


def against_baseline(ablation: AblationRows, measure: Measure) -> PairedDifferences:
    """Every variant that can be paired with the baseline, against it. Raises ValueError without a baseline."""
    baseline = ablation.definition.baseline
    if baseline is None:
        raise ValueError("the ablation has no baseline")
    by_variant = values(ablation, measure)
    others = [variant for variant in by_variant if variant != baseline and variant not in _strangers(ablation)]
    differences = {
        variant: difference for variant in others
        if (difference := _difference(ablation, measure, by_variant[variant], by_variant.get(baseline, [])))
    }  # fmt: skip
    return against(baseline, differences)


def best_of_all(ablation: AblationRows, measure: Measure) -> str | None:
    """The variant whose interval is better than all others without overlap, if there is one."""
    by_variant = values(ablation, measure)
    numbers = {variant: [value.value for value in of] for variant, of in by_variant.items() if of}
    if measure.better is None or len(numbers) < 2 or len(numbers) < len(by_variant):
        return None
    best = leader(numbers, measure.better == "more")
    return best.name if best.wins else None


def _strangers(ablation: AblationRows) -> list[str]:
    """Variants that share neither weights nor problems with the baseline."""
    settings = {variant: children[0].settings for variant, children in complete_children(ablation).items()}
    base = settings.get(str(ablation.definition.baseline), {})
    return [variant for variant, of in settings.items() if all(of.get(name) != base.get(name) for name in START)]


def _difference(ablation: AblationRows, measure: Measure, one: list[Value], base: list[Value]) -> Difference | None:
    """Over the seeds that both have; for metrics named beforehand also bootstrapped, if known by held-out problem."""
    pairs = _pairs(one, base)
    if not pairs:
        return None
    difference = paired([mine.value - other.value for mine, other in pairs])
    if difference.p_seeds is None or measure not in (primary(ablation), *margin_measures(ablation)):
        return difference
    by_problem = [(by_problem_of(measure, mine), by_problem_of(measure, other)) for mine, other in pairs]
    known = set.intersection(*(set(each) for pair in by_problem for each in pair))
    if len(known) < 2:
        return difference
    table = np.array([[mine[name] - other[name] for name in sorted(known)] for mine, other in by_problem])
    return over_problems(
        difference, table, (ablation.definition.name, measure.metric, measure.how, pairs[0][0].child.variant)
    )


def _pairs(one: list[Value], base: list[Value]) -> list[tuple[Value, Value]]:
    """The values of the seeds that both have."""
    of_base = {value.child.seed: value for value in base}
    return [(value, of_base[value.child.seed]) for value in one if value.child.seed in of_base]


def margin_measures(ablation: AblationRows) -> list[Measure]:
    """The measures of `no_worse`."""
    return [Measure(metric, metric, "last", "more") for metric in ablation.definition.no_worse]


def margins(ablation: AblationRows) -> list[Margin]:
    """Each of them with its differences; none without a baseline."""
    return [
        Margin(measure.metric, ablation.definition.no_worse[measure.metric],
               against_baseline(ablation, measure).differences)
        for measure in margin_measures(ablation)
    ]  # fmt: skip


def interactions(ablation: AblationRows) -> list[Interaction]:
    """The interaction that the definition names, if any."""
    metrics, baseline = ablation.definition.interaction, ablation.definition.baseline
    if metrics is None or baseline is None:
        return []
    logs = [_log_ratios(ablation, metric) for metric in metrics]
    shares = {metric: {variant: paired(list(of.values())) for variant, of in by_variant.items()}
              for metric, by_variant in zip(metrics, logs, strict=True)}  # fmt: skip
    between = {}
    for variant in logs[0].keys() & logs[1].keys():
        first, second = logs[0][variant], logs[1][variant]
        if common := sorted(first.keys() & second.keys()):
            between[variant] = paired([first[seed] - second[seed] for seed in common])
    in_order = {variant: between[variant] for variant in ablation.definition.variants if variant in between}
    return [Interaction(metrics, shares, against(baseline, in_order))]


def _log_ratios(ablation: AblationRows, metric: str) -> dict[str, dict[int, float]]:
    """ln(variant / baseline) at the last step, by variant and seed."""
    by_variant = values(ablation, Measure(metric, metric, "last"))
    base = by_variant.get(str(ablation.definition.baseline), [])
    logs = {}
    for variant, of in by_variant.items():
        pairs = _pairs(of, base)
        if pairs and variant != ablation.definition.baseline and variant not in _strangers(ablation):
            logs[variant] = {mine.child.seed: math.log(mine.value / other.value) for mine, other in pairs
                             if mine.value > 0 and other.value > 0}  # fmt: skip
    return {variant: of for variant, of in logs.items() if of}


def by_problem_of(measure: Measure, value: Value) -> dict[str, float]:
    """A child's number for each held-out problem; empty if some of its rows are not known by problem."""
    tables = list(_problem_rows(measure, value))
    if not tables or len(tables) < len(value.rows):
        return {}
    weights = value.weights or [1 / len(tables)] * len(tables)
    known = set.intersection(*(set(table) for table in tables))
    return {name: sum(weight * table[name] for weight, table in zip(weights, tables, strict=True)) for name in known}


def _problem_rows(measure: Measure, value: Value) -> Iterator[dict[str, float]]:
    """The accuracies behind each row of `val/accuracy`, or of `val/SET/accuracy`, whose problems are `SET/…`."""
    place, _, rest = measure.metric.partition("/")
    if place != "val" or rest.rpartition("/")[2] != "accuracy" or measure.how == "sum":
        return
    of = rest.rpartition("/")[0]
    for row in value.rows:
        table = value.child.problems.get(row.step, {})
        kept = {name: accuracy for name, accuracy in table.items() if not of or name.startswith(f"{of}/")}
        if kept:
            yield kept
