"""The report of an ablation: one self-contained HTML file, made from MLflow rows alone, and those rows as CSV.

Covered: what was compared, what is claimed, differences from the baseline, curves, the table of measures with 95 %
intervals over seeds, verdicts over time, and for every number the MLflow rows it came from. Not covered: what is
compared and claimed (ares/ablations/comparison.py), which row becomes which number (ares/ablations/measures.py), the
pictures (ares/ablations/plots.py), the rows as CSV (ares/ablations/tables.py).
"""

import base64
import os
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from ares.ablations.besides import percent, widest
from ares.ablations.comparison import (
    against_baseline,
    best_of_all,
    complete_children,
    conclusion,
    interactions,
    margins,
    primary,
    values,
)
from ares.ablations.definition import differing_settings
from ares.ablations.measures import Measure, Value, compared_step, end_of, error_measures, function_titles, measures
from ares.ablations.paired import PairedDifferences
from ares.ablations.plots import CURVES, PALETTE, curves, differences, verdict_areas
from ares.ablations.rows import AblationRows, ChildRows
from ares.ablations.statistics import Estimate, estimate
from ares.ablations.tables import problems_csv, problems_path, rows_csv
from ares.reports import mlflow_page
from ares.store import StoreError, runs_directory


@dataclass(frozen=True)
class Cell:
    """One variant's value for one measure, and the values it is the mean of."""

    anchor: str
    values: list[Value]
    estimate: Estimate | None
    best: bool
    """Whether its interval is better than all others without overlap."""


@dataclass(frozen=True)
class Line:
    """One measure over all variants."""

    measure: Measure
    cells: dict[str, Cell]


def write_report(ablation: AblationRows, target: Path) -> list[Path]:
    """Write the report as `target` (.html), its rows beside it (.csv) and, where there are any, the held-out problems
    of the primary metric (-problems.csv) and the picture of what differs from the baseline (.svg); returns the files.
    """
    rows = target.with_suffix(".csv")
    texts = {rows: rows_csv(ablation), problems_path(rows): problems_csv(ablation)}
    written = {file: text for file, text in texts.items() if text}
    for file, text in written.items():
        _write(file, text)
    page, *picture = write_page(ablation, target, rows)
    return [page, *written, *picture]


def write_page(ablation: AblationRows, target: Path, rows: Path) -> list[Path]:
    """Write the report and its picture only, from rows that were read from a file; returns the files."""
    picture = difference_picture(ablation)
    texts = {target: render(ablation, rows.name, picture), target.with_suffix(".svg"): picture}
    written = {file: text for file, text in texts.items() if text}
    for file, text in written.items():
        _write(file, text)
    return list(written)


def difference_picture(ablation: AblationRows) -> str:
    """The differences that were named beforehand, as SVG: the primary one and those with a margin; "" if there is
    nothing to compare with a baseline."""
    baseline, measure = ablation.definition.baseline, primary(ablation)
    if baseline is None:
        return ""
    of_margins = {margin.metric: (margin.differences, margin.margin) for margin in margins(ablation)}
    panels = {measure.title: (against_baseline(ablation, measure).differences, 0.0)} | of_margins
    shown = [(title, of, margin) for title, (of, margin) in panels.items() if of]
    return differences(baseline, list(ablation.definition.variants), shown) if shown else ""


def _write(file: Path, text: str) -> None:
    temporary = file.with_name(f".{file.name}.partial")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"{file}: the report cannot be written: {error.strerror}") from error


def lines(ablation: AblationRows, wanted: list[Measure], label: str) -> list[Line]:
    """The given measures of the finished children, without those that no child has."""
    made: list[Line] = []
    for number, measure in enumerate(wanted):
        of_measure = values(ablation, measure)
        if any(of_measure.values()):
            best = best_of_all(ablation, measure)
            cells = {
                variant: Cell(
                    anchor=f"{label}{number}-{place}",
                    values=of,
                    estimate=estimate([value.value for value in of]) if of else None,
                    best=variant == best,
                )
                for place, (variant, of) in enumerate(of_measure.items())
            }
            made.append(Line(measure, cells))
    return made


def render(ablation: AblationRows, rows_name: str, picture: str = "") -> str:
    """The report as HTML text; `picture`: the differences as SVG, or ""."""
    last = compared_step(ablation)
    complete, started = complete_children(ablation), _started(ablation)
    logged = _logged(ablation)
    known = measures(ablation.definition.primary, ablation.definition.maximise, logged)
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
        unfinished=[child for child in ablation.children if end_of(ablation, child) is None],
        missing=[f"{variant}, seed {seed}" for variant, seed in wanted if (variant, seed) not in here],
        versions=sorted({child.code_version for child in ablation.children}),
        table=lines(ablation, known, "m"),
        against=_against(ablation, known + errors),
        margins=[margin for margin in margins(ablation) if margin.differences],
        interactions=interactions(ablation),
        errors=lines(ablation, errors, "e"),
        differences=_data_uri(picture) if picture else None,
        **_pictures(ablation, started, with_areas=bool(errors)),
        window=_window(last),
        page=mlflow_page(ablation.uri, runs_directory()),
        rows_name=rows_name,
    )


def _against(ablation: AblationRows, wanted: list[Measure]) -> list[tuple[Measure, PairedDifferences]]:
    """The measures that have a difference from the baseline, the primary one first."""
    if ablation.definition.baseline is None:
        return []
    compared = [(measure, against_baseline(ablation, measure)) for measure in wanted]
    return [(measure, of) for measure, of in compared if of.differences]


def _template() -> Template:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"figure": figure, "signed": signed, "widest": widest, "percent": percent}
    return environment.get_template("report_template.html")


def _pictures(ablation: AblationRows, started: dict[str, list[ChildRows]], with_areas: bool) -> dict[str, str | None]:
    """The pictures as data URIs, each None where nothing of it was logged."""
    metric, logged, window = ablation.definition.metric, _logged(ablation), _window(compared_step(ablation))
    main_curve = [(metric, metric, 1)] if metric in logged else []
    titles = dict(CURVES) | function_titles(logged)
    others = [(name, title, 1 if name.startswith("val/") else window) for name, title in titles.items()
              if name in logged and name != metric]  # fmt: skip
    areas = verdict_areas(started, window) if with_areas else ""
    return {
        "main_curve": _data_uri(curves(started, main_curve, 1, 3.4, legend=True)) if main_curve and started else None,
        "curves": _data_uri(curves(started, others, 3, 2.3, legend=False)) if others and started else None,
        "areas": _data_uri(areas) if areas else None,
    }


def _logged(ablation: AblationRows) -> set[str]:
    return {name for child in ablation.children for name in child.rows}


def _window(last: int | None) -> int:
    """Window of the running mean of training curves, in steps."""
    return max(1, (last or 0) // 20)


def figure(value: float, digits: int) -> str:
    """A number with fixed digits, spaces between thousands, and no minus before zero."""
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace(",", " ")


def signed(value: float, digits: int) -> str:
    """A difference: the same, with its sign."""
    shown = figure(value, digits)
    return shown if shown.startswith("-") or float(shown.replace(" ", "")) == 0 else f"+{shown}"


def _started(ablation: AblationRows) -> dict[str, list[ChildRows]]:
    """The children whose curves are shown: finished ones, since others would cut the mean short, else all."""
    complete = complete_children(ablation)
    return {variant: complete.get(variant) or ablation.of(variant) for variant in ablation.definition.variants
            if ablation.of(variant)}  # fmt: skip


def _clear_measures(measured: list[Line]) -> list[tuple[str, str, str]]:
    """Measures with a variant that is better than all others: (measure, more or less, variant)."""
    return [
        (line.measure.title, str(line.measure.better), variant)
        for line in measured
        for variant, cell in line.cells.items()
        if cell.best
    ]


def _data_uri(svg: str) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
