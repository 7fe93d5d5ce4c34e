"""The report of an ablation: one HTML file that needs nothing else, made from MLflow rows alone, and those rows as CSV.

Covered: what was compared, who wins (only where intervals separate), curves, the table of measures with 95 % intervals
over seeds, verdicts over time, and for every number the MLflow rows it came from. Not covered: the statistics
(ares/ablations/statistics.py), which row becomes which number (ares/ablations/measures.py), the pictures
(ares/ablations/plots.py).
"""

import base64
import csv
import io
import os
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from ares.ablations.definition import differing_settings
from ares.ablations.measures import (
    Measure,
    Value,
    compared_step,
    error_measures,
    function_titles,
    is_complete,
    measures,
    value_of,
)
from ares.ablations.plots import PALETTE, curves, verdict_areas
from ares.ablations.rows import AblationRows, ChildRows
from ares.ablations.statistics import Estimate, estimate, leader, verdict
from ares.store import StoreError

CURVES = (
    ("reward/sampled_accuracy", "training accuracy, all samples"),
    ("code/pass_ratio", "share of tests passed, training"),
    ("val/pass_ratio", "share of tests passed, held out"),
    ("filter/kept_share", "groups kept by the filter"),
    ("code/cost/tokens_per_solved", "tokens per solved problem"),
    ("code/error/syntax_error", "syntax errors"),
    ("response_length/mean", "response length (tokens)"),
    ("entropy/mean", "token entropy (nats)"),
    ("critic/kl", "KL to the reference (nats a token)"),
)
"""Curves beside that of the compared metric, where they were logged."""


@dataclass(frozen=True)
class Cell:
    """One variant's figure for one measure, and the values it is the mean of."""

    anchor: str
    values: list[Value]
    estimate: Estimate | None
    best: bool
    """Whether its interval lies clear of all others, on the good side."""


@dataclass(frozen=True)
class Line:
    """One measure over all variants."""

    measure: Measure
    cells: dict[str, Cell]


def write_report(ablation: AblationRows, target: Path) -> list[Path]:
    """Write the report as `target` (.html) and its rows beside it (.csv); returns both."""
    rows = target.with_suffix(".csv")
    for file, text in ((target, render(ablation, rows.name)), (rows, rows_csv(ablation))):
        temporary = file.with_name(f".{file.name}.partial")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, file)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StoreError(f"{file}: the report cannot be written: {error.strerror}") from error
    return [target, rows]


def conclusion(ablation: AblationRows) -> str:
    """The verdict on the compared metric, in words."""
    complete = _complete(ablation)
    values = {
        variant: [value.value for value in _values(_main(ablation), children, compared_step(ablation) or 0)]
        for variant, children in complete.items()
    }
    return verdict({variant: of for variant, of in values.items() if of}, ablation.definition.metric,
                   ablation.definition.maximise)  # fmt: skip


def lines(ablation: AblationRows, wanted: list[Measure], label: str) -> list[Line]:
    """The wanted measures of the finished children; a measure that no child has is left out."""
    complete, last = _complete(ablation), compared_step(ablation) or 0
    made: list[Line] = []
    for number, measure in enumerate(wanted):
        values = {variant: _values(measure, children, last) for variant, children in complete.items()}
        if any(values.values()):
            best = _clear_of_all(values, measure)
            cells = {
                variant: Cell(
                    anchor=f"{label}{number}-{place}",
                    values=of,
                    estimate=estimate([value.value for value in of]) if of else None,
                    best=variant == best,
                )
                for place, (variant, of) in enumerate(values.items())
            }
            made.append(Line(measure, cells))
    return made


def render(ablation: AblationRows, rows_name: str) -> str:
    """The report as HTML text."""
    metric, last = ablation.definition.metric, compared_step(ablation)
    complete, started = _complete(ablation), _started(ablation)
    logged = _logged(ablation)
    known = measures(metric, ablation.definition.maximise, logged)
    errors = [measure for measure in error_measures() if measure.metric in logged]
    settings = {variant: children[0].settings for variant, children in started.items()}
    wanted = [(variant, seed) for variant in ablation.definition.variants for seed in ablation.definition.seeds]
    here = {(child.variant, child.seed) for child in ablation.children}
    return _template().render(
        ablation=ablation,
        last=last,
        conclusion=conclusion(ablation),
        clear=_clear_measures(lines(ablation, known[1:] + errors, "w")),
        colors={variant: PALETTE[place % len(PALETTE)] for place, variant in enumerate(ablation.definition.variants)},
        differing=[pair for pair in differing_settings(settings) if pair[0] != "train.seed"] if settings else [],
        variants=list(complete),
        complete=complete,
        unfinished=[child for child in ablation.children if not _is_complete(ablation, child)],
        missing=[f"{variant}, seed {seed}" for variant, seed in wanted if (variant, seed) not in here],
        versions=sorted({child.code_version for child in ablation.children}),
        table=lines(ablation, known, "m"),
        errors=lines(ablation, errors, "e"),
        **_pictures(ablation, started, with_areas=bool(errors)),
        window=_window(last),
        page=ablation.uri if ablation.uri.startswith("http") else "http://127.0.0.1:5000",
        rows_name=rows_name,
    )


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters["figure"] = figure
    return environment.get_template("report_template.html")


def _pictures(ablation: AblationRows, started: dict[str, list[ChildRows]], with_areas: bool) -> dict[str, str | None]:
    """The pictures as data URIs, each None where nothing of it was logged."""
    metric, logged, window = ablation.definition.metric, _logged(ablation), _window(compared_step(ablation))
    main_curve = [(metric, metric, 1)] if metric in logged else []
    titles = dict(CURVES) | function_titles(logged)
    others = [(name, title, 1 if name.startswith("val/") else window) for name, title in titles.items()
              if name in logged and name != metric]  # fmt: skip
    return {
        "main_curve": _data_uri(curves(started, main_curve, 1, 3.4, legend=True)) if main_curve and started else None,
        "curves": _data_uri(curves(started, others, 3, 2.3, legend=False)) if others and started else None,
        "areas": _data_uri(verdict_areas(started, window)) if with_areas and started else None,
    }


def _logged(ablation: AblationRows) -> set[str]:
    return {name for child in ablation.children for name in child.rows}


def _window(last: int | None) -> int:
    """Steps over which curves of the training are averaged."""
    return max(1, (last or 0) // 20)


def rows_csv(ablation: AblationRows) -> str:
    """Every MLflow row of every child, as CSV: what the report was made from."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["run_id", "run", "variant", "seed", "metric", "step", "timestamp", "value"])
    for child in ablation.children:
        for metric in sorted(child.rows):
            for row in child.rows[metric]:
                writer.writerow([child.run_id, child.name, child.variant, child.seed, metric, row.step, row.timestamp,
                                 repr(row.value)])  # fmt: skip
    return text.getvalue()


def figure(value: float, digits: int) -> str:
    """A number as the report writes it: fixed digits, thousands apart, no minus before a zero."""
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace(",", " ")


def _main(ablation: AblationRows) -> Measure:
    return measures(ablation.definition.metric, ablation.definition.maximise)[0]


def _is_complete(ablation: AblationRows, child: ChildRows) -> bool:
    last = compared_step(ablation)
    return last is not None and is_complete(child, ablation.definition.metric, last)


def _complete(ablation: AblationRows) -> dict[str, list[ChildRows]]:
    """The finished children of each variant that has any."""
    of = {variant: [child for child in ablation.of(variant) if _is_complete(ablation, child)]
          for variant in ablation.definition.variants}  # fmt: skip
    return {variant: children for variant, children in of.items() if children}


def _started(ablation: AblationRows) -> dict[str, list[ChildRows]]:
    """The children whose curves are shown: one on its way would cut its variant's short, unless it has no other."""
    complete = _complete(ablation)
    return {variant: complete.get(variant) or ablation.of(variant) for variant in ablation.definition.variants
            if ablation.of(variant)}  # fmt: skip


def _values(measure: Measure, children: list[ChildRows], last: int) -> list[Value]:
    return [value for child in children if (value := value_of(measure, child, last)) is not None]


def _clear_of_all(values: dict[str, list[Value]], measure: Measure) -> str | None:
    """The variant whose interval lies clear of all others on the measure's good side."""
    numbers = {variant: [value.value for value in of] for variant, of in values.items() if of}
    if measure.better is None or len(numbers) < 2 or len(numbers) < len(values):
        return None
    best = leader(numbers, measure.better == "more")
    return best.name if best.wins else None


def _clear_measures(measured: list[Line]) -> list[tuple[str, str, str]]:
    """Of the other measures, those with a variant clear of all others: (measure, more or less, variant)."""
    return [
        (line.measure.title, str(line.measure.better), variant)
        for line in measured
        for variant, cell in line.cells.items()
        if cell.best
    ]


def _data_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
