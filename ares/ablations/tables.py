"""An ablation as CSV: every row of its report, which can be made again from it without the children.

Covered: the file of rows (a line for every child and step, a column for every metric), the file of held-out problems
beside it (a line for every child and evaluation, a column for every problem), and the head of the first, YAML behind
`# `, with the definition, the children and the settings in which they differ. Not covered: the report.
"""

import io
from pathlib import Path

import pandas as pd
import yaml

from ares.ablations.comparison import find_primary, find_weights
from ares.ablations.definition import Ablation
from ares.ablations.measures import list_measures
from ares.ablations.rows import TOKENS, AblationRows, ChildRows, Key
from ares.config import ConfigError

HEAD = "# "
OF_A_LINE = ["variant", "seed", "step"]
OF_A_CHILD = ("run_id", "name", "variant", "seed", "code_version")
OF_AN_ABLATION = ("uri", "experiment_id", "run_id", "command_line")


def problems_path(rows: Path) -> Path:
    """Where the held-out problems of a file of rows lie."""
    return rows.with_name(f"{rows.stem}-problems.csv")


def write_rows(ablation: AblationRows) -> str:
    """The rows of every child, for the metrics that a report uses, below a head with everything else it shows."""
    definition = ablation.definition
    measured = {measure.metric for measure in list_measures(definition.primary, ablation.logged)}
    names = sorted((measured | {TOKENS} | definition.judged) & ablation.logged)
    head = {
        "definition": definition.model_dump(mode="json"),
        **{name: getattr(ablation, name) for name in OF_AN_ABLATION},
        "settings": {variant: of.dropna().to_dict() for variant, of in ablation.find_differing_settings().items()},
        "children": [{name: getattr(child, name) for name in OF_A_CHILD} for child in ablation.children],
    }
    lines = yaml.safe_dump(head, sort_keys=False, allow_unicode=True, width=110).splitlines()
    tables = {child.key: child.rows.reindex(columns=names) for child in ablation.children}
    return "".join(f"{HEAD}{line}\n" for line in lines) + _write_lines(tables)


def write_problems(ablation: AblationRows) -> str:
    """The accuracy on each held-out problem at the evaluations that the primary metric is made of; "" without any."""
    used = {child.key: child.problems[child.problems.index.isin(weights.index)]
            for child, weights in find_weights(ablation, find_primary(ablation))}  # fmt: skip
    known = {key: table.dropna(axis=1, how="all") for key, table in used.items()}
    names = sorted({str(name) for table in known.values() for name in table})
    return _write_lines({key: table.reindex(columns=names) for key, table in used.items()}) if names else ""


def read_csv(path: Path) -> AblationRows:
    """The ablation stored in a file of rows. Raises ConfigError if it is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        head = yaml.safe_load("".join(line.removeprefix(HEAD) for line in lines if line.startswith(HEAD)))
        of = {name: head[name] for name in OF_AN_ABLATION} | {"definition": Ablation.model_validate(head["definition"])}
        tables = _read_lines("".join(line for line in lines if not line.startswith(HEAD)))
        beside = problems_path(path)
        problems = _read_lines(beside.read_text(encoding="utf-8")) if beside.exists() else {}
        children = []
        for listed in head["children"]:
            each = {name: listed[name] for name in OF_A_CHILD}  # there was more until 2026-11-25
            key, settings = (each["variant"], each["seed"]), dict(head["settings"][each["variant"]])
            rows, by_problem = (found.get(key, pd.DataFrame()) for found in (tables, problems))
            children.append(ChildRows(**each, settings=settings, rows=rows, problems=by_problem))
        return AblationRows(**of, children=children)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not the rows of an ablation, as `ares report` writes them ({error})") from error


def _write_lines(tables: dict[Key, pd.DataFrame]) -> str:
    """A line for each child and index of its table."""
    return pd.concat(tables, names=OF_A_LINE).to_csv(lineterminator="\n") if tables else ""


def _read_lines(text: str) -> dict[Key, pd.DataFrame]:
    """The table of each child, of the columns that it has any value of."""
    if not text:
        return {}
    lines = pd.read_csv(
        io.StringIO(text), index_col=OF_A_LINE, dtype={"variant": str}, float_precision="round_trip",
        keep_default_na=False, na_values=["", "nan", "inf"],
    )  # fmt: skip
    return {
        (str(variant), int(str(seed))): of.droplevel(["variant", "seed"]).dropna(axis=1, how="all").astype(float)
        for (variant, seed), of in lines.groupby(level=["variant", "seed"])
    }
