"""An ablation as CSV: every row of its report, which can be made again from it without MLflow.

Covered: the file of rows (a line for every child and step, a column for every metric), the file of held-out problems
beside it (a line for every child and evaluation, a column for every problem), and the head of the first, YAML behind
`# `, with the definition, the children and the settings in which they differ. Not covered: the report.
"""

import csv
import io
from pathlib import Path
from typing import Any

import yaml

from ares.ablations.comparison import primary, values
from ares.ablations.definition import Ablation, differing_settings
from ares.ablations.measures import error_measures, measures
from ares.ablations.plots import CURVES
from ares.ablations.rows import TOKENS, AblationRows, ChildRows, Row
from ares.config import ConfigError

HEAD = "# "
OF_A_LINE = ("variant", "seed", "step")
OF_A_CHILD = ("run_id", "name", "variant", "seed", "status", "code_version")
OF_AN_ABLATION = ("uri", "experiment", "experiment_id", "run_id", "command_line", "repeated")


def problems_path(rows: Path) -> Path:
    """Where the held-out problems of a file of rows lie."""
    return rows.with_name(f"{rows.stem}-problems.csv")


def used_metrics(ablation: AblationRows) -> list[str]:
    """The metrics that a report uses."""
    logged = {name for child in ablation.children for name in child.rows}
    known = [*measures(ablation.definition.primary, ablation.definition.maximise, logged), *error_measures()]
    shown = {measure.metric for measure in known} | dict(CURVES).keys() | {TOKENS} | ablation.definition.judged
    return sorted(shown & logged)


def rows_csv(ablation: AblationRows) -> str:
    """The rows of every child, for the metrics that a report uses, below a head with everything else it shows."""
    names = used_metrics(ablation)
    lines: list[list[str]] = []
    for child in ablation.children:
        by_step: dict[int, dict[str, str]] = {}
        for name in names:
            for row in child.rows.get(name, []):
                by_step.setdefault(row.step, {})[name] = repr(row.value)
        lines += [
            [child.variant, str(child.seed), str(step), *(by_step[step].get(name, "") for name in names)]
            for step in sorted(by_step)
        ]
    head = yaml.safe_dump(_head(ablation), sort_keys=False, allow_unicode=True, width=110)
    return "".join(f"{HEAD}{line}\n" for line in head.splitlines()) + _csv([[*OF_A_LINE, *names], *lines])


def problems_csv(ablation: AblationRows) -> str:
    """The accuracy on each held-out problem at the evaluations that the primary metric is made of; "" without any."""
    used = {
        (child.run_id, row.step): child.problems[row.step]
        for of in values(ablation, primary(ablation)).values() for value in of for child in [value.child]
        for row in value.rows if row.step in child.problems
    }  # fmt: skip
    names = sorted({name for table in used.values() for name in table})
    lines = [
        [child.variant, str(child.seed), str(step), *(repr(table[name]) if name in table else "" for name in names)]
        for child in ablation.children for (run_id, step), table in used.items() if run_id == child.run_id
    ]  # fmt: skip
    return _csv([[*OF_A_LINE, *names], *lines]) if lines else ""


def read_csv(path: Path) -> AblationRows:
    """The ablation stored in a file of rows. Raises ConfigError if it is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        head = yaml.safe_load("".join(line.removeprefix(HEAD) for line in lines if line.startswith(HEAD)))
        body = "".join(line for line in lines if not line.startswith(HEAD))
        beside = problems_path(path)
        problems = beside.read_text(encoding="utf-8") if beside.exists() else ""
        return _ablation(head, body, problems)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not the rows of an ablation, as `ares report` writes them ({error})") from error


def _head(ablation: AblationRows) -> dict[str, Any]:
    first: dict[str, dict[str, str]] = {}
    for child in ablation.children:
        first.setdefault(child.variant, child.settings)
    differing = list(differing_settings(first)) if first else []
    return {
        "definition": ablation.definition.model_dump(mode="json"),
        **{name: getattr(ablation, name) for name in OF_AN_ABLATION},
        "settings": {variant: {name: of[variant] for name, of in differing if of[variant] is not None}
                     for variant in first},
        "children": [{name: getattr(child, name) for name in OF_A_CHILD} for child in ablation.children],
    }  # fmt: skip


def _ablation(head: dict[str, Any], body: str, problems: str) -> AblationRows:
    children = {
        (of["variant"], of["seed"]): ChildRows(**of, settings=dict(head["settings"][of["variant"]]), rows={})
        for of in head["children"]
    }
    for line in csv.DictReader(io.StringIO(body)):
        child, step = _of_line(children, line)
        for name, value in line.items():
            if value:
                child.rows.setdefault(name, []).append(Row(step, float(value)))
    for line in csv.DictReader(io.StringIO(problems)):
        child, step = _of_line(children, line)
        child.problems[step] = {name: float(value) for name, value in line.items() if value}
    return AblationRows(
        definition=Ablation.model_validate(head["definition"]), children=list(children.values()),
        **{name: head[name] for name in OF_AN_ABLATION},
    )  # fmt: skip


def _of_line(children: dict[tuple[str, int], ChildRows], line: dict[str, str]) -> tuple[ChildRows, int]:
    """The child and the step of a line; removes their columns from it."""
    variant, seed, step = (line.pop(name) for name in OF_A_LINE)
    return children[variant, int(seed)], int(step)


def _csv(lines: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
