"""The report of an ablation: one self-contained HTML file, made from rows alone, and those rows as CSV.

Covered: what was compared, what is claimed, differences from the baseline, curves, the table of measures with 95 %
intervals over seeds, and for every number the rows it came from. Not covered: what is compared
(ares/ablations/comparison.py) and claimed (ares/ablations/wording.py), the pictures (ares/ablations/plots.py), the rows
as CSV (ares/ablations/rows.py).
"""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ares.ablations.comparison import (
    RULES,
    Measure,
    compare,
    cut_rows,
    find_last_step,
    find_numbers,
    find_primary,
    list_margin_measures,
    list_measures,
    weigh,
)
from ares.ablations.plots import PALETTE, draw_curves, draw_differences
from ares.ablations.rows import CHILD, TOKENS, AblationRows, problems_path, write_rows
from ares.ablations.wording import conclude
from ares.evaluation import estimate
from ares.store import StoreError, mlflow_page, runs_directory


class Cell(NamedTuple):
    """One cell of a table: a text, smaller lines below it, and whether it is marked by ◆."""

    text: str
    below: tuple[str, ...] = ()
    is_marked: bool = False


Table = list[tuple[Cell, dict[str, Cell]]]
"""Lines of a title and a cell by variant."""


def write_report(ablation: AblationRows, target: Path) -> list[Path]:
    """Write the report as `target` (.html) and beside it the picture of what differs from the baseline (.svg), its rows
    (.csv) and, where there are any, the held-out problems of the primary metric (-problems.csv). Returns the files.
    """
    csv, picture = target.with_suffix(".csv"), draw_named_differences(ablation)
    texts = {target: render(ablation, csv.name, picture), **write_tables(ablation, csv)}
    texts[target.with_suffix(".svg")] = picture
    written = [file for file, text in texts.items() if text]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        for file in written:
            file.write_text(texts[file], encoding="utf-8")
    except OSError as error:
        raise StoreError(f"{target}: the report cannot be written: {error.strerror}") from error
    return written


def write_tables(ablation: AblationRows, csv: Path) -> dict[Path, str]:
    """The rows of the metrics that a report uses; and the accuracy on each held-out problem at the evaluations that the
    primary metric is made of, "" without any."""
    definition, problems = ablation.definition, ablation.problems
    measured = {measure.metric for measure in list_measures(definition.primary, ablation.logged)}
    metrics = sorted((measured | {TOKENS} | definition.judged) & ablation.logged)
    used = problems[problems.index.isin(weigh(ablation, find_primary(ablation)).index)]
    known = used.dropna(axis=1, how="all").sort_index(axis=1)
    by_problem = "" if known.empty else known.to_csv(lineterminator="\n")
    return {csv: write_rows(ablation, metrics), problems_path(csv): by_problem}


def draw_named_differences(ablation: AblationRows) -> str:
    """The differences that were named beforehand, as SVG: the primary one and those with a margin; "" if there is
    nothing to compare with the baseline."""
    definition, primary = ablation.definition, find_primary(ablation)
    panels = {primary.title: (compare(ablation, primary).of, 0.0)}
    for measure in list_margin_measures(ablation):
        panels[measure.title] = compare(ablation, measure).of, definition.no_worse[measure.metric]
    shown = [(title, of, margin) for title, (of, margin) in panels.items() if of]
    return draw_differences(definition.against, list(definition.variants), shown) if shown else ""


def render(ablation: AblationRows, rows_name: str, picture: str = "") -> str:
    """The report as HTML text; `picture`: the differences as SVG, or ""."""
    definition, children, rows = ablation.definition, ablation.children, ablation.rows
    last, measures = find_last_step(ablation), list_measures(definition.primary, ablation.logged)
    finished = cut_rows(ablation).droplevel("step").index.unique()
    newest = rows.index.to_frame()["step"].groupby(CHILD).max()
    complete = rows[rows.droplevel("step").index.isin(finished)]  # others would cut the curves' means short
    drawn = dict.fromkeys(definition.variants, rows[:0])
    drawn |= {str(variant): of for variant, of in complete.groupby("variant")}
    window = max(1, (last or 0) // 20)
    panels = [(measure.metric, measure.title, window) for measure in measures[2:]
              if measure.how in ("tail", "mean") and measure.metric != definition.metric]  # fmt: skip
    main_panel = [(definition.metric, definition.metric, 1)] if definition.metric in ablation.logged else []
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return environment.get_template("report_template.html").render(
        ablation=ablation,
        definition=definition,
        last=last,
        conclusion=conclude(ablation),
        colors={variant: PALETTE[place % len(PALETTE)] for place, variant in enumerate(definition.variants)},
        settings=ablation.settings.fillna("–"),
        unfinished=[(about["name"], newest.get(child)) for child, about in children.items() if child not in finished],
        at_the_end=tabulate_measures(ablation, measures),
        sources=[source for measure in measures for source in list_sources(ablation, measure)],
        differences=_embed(picture),
        main_curve=_embed(draw_curves(drawn, main_panel, 1, 3.4, legend=True)),
        curves=_embed(draw_curves(drawn, panels, 3, 2.3, legend=False)),
        window=window,
        page=mlflow_page(ablation.uri, runs_directory()),
        rows_name=rows_name,
    )  # fmt: skip


def list_sources(ablation: AblationRows, measure: Measure) -> Iterator[tuple[Any, ...]]:
    """Of each number of a measure: measure, variant, seed, MLflow run, the steps of its rows, value."""
    numbers = find_numbers(ablation, measure)
    for child, weights in weigh(ablation, measure).groupby(CHILD, sort=False):
        steps = list(weights.index.get_level_values("step"))
        yield measure, *child, ablation.children[child]["run_id"], steps, numbers.get(child)


def tabulate_measures(ablation: AblationRows, measures: list[Measure]) -> Table:
    """The mean and interval over seeds of each measure that a finished child has, and the difference from the baseline;
    ◆ where the primary one, which is the first, claims a difference."""
    table: Table = []
    for measure in measures:
        against, is_primary = compare(ablation, measure), measure == measures[0]
        cells: dict[str, Cell] = {}
        for name, values in find_numbers(ablation, measure).groupby("variant", sort=False):
            variant, found = str(name), estimate(values.tolist())
            below = [_show_ends((found.low, found.high), measure.digits, "")]
            if (difference := against.of.get(variant)) is not None:
                ends = _show_ends(difference.interval, measure.digits)
                below.append(f"Δ {format_number(difference.mean, measure.digits, '+')} {ends}")
                if difference.has_problems:
                    below.append(f"problems too {_show_ends(difference.second, measure.digits)}")
                if is_primary and variant in against.adjusted:
                    below.append(f"p {against.adjusted[variant]:.4f}")
            is_marked = is_primary and against.claims(variant)
            cells[variant] = Cell(format_number(found.mean, measure.digits), tuple(below), is_marked)
        if cells:
            rule = f"{RULES[measure.how]}, {'primary' if is_primary else 'exploratory'}"
            table.append((Cell(measure.title, (rule,)), cells))
    return table


def _show_ends(ends: tuple[float | None, float | None] | None, digits: int, sign: Literal["", "+"] = "+") -> str:
    low, high = ends or (None, None)
    if low is None or high is None:
        return "one seed"
    return f"[{format_number(low, digits, sign)}, {format_number(high, digits, sign)}]"


def format_number(value: float, digits: int, sign: Literal["", "+"] = "") -> str:
    """A number with fixed digits, spaces between thousands and no sign before zero; sign: "+" shows that of others."""
    rounded = round(value, digits) + 0.0
    return f"{rounded:{sign if rounded else ''},.{digits}f}".replace(",", " ")


def _embed(svg: str) -> str | None:
    """A picture as a data URI; None without one."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}" if svg else None
