"""An ablation as CSV: every row of its report, which can be made again from it without MLflow.

Covered: the file of rows (a line for every child and step, a column for every metric), the file of held-out problems
beside it (a line for every child and evaluation, a column for every problem), and the head of the first, YAML behind
`# `, with the definition, the children and the settings in which they differ. Not covered: the report.
"""

import io
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import yaml

from ares.ablations.comparison import find_primary, find_weights
from ares.ablations.definition import Ablation
from ares.ablations.measures import list_measures
from ares.ablations.rows import TOKENS, AblationRows, ChildRows
from ares.config import ConfigError

HEAD = "# "
OF_A_LINE = ["variant", "seed", "step"]
OF_A_CHILD = ("run_id", "name", "variant", "seed", "status", "code_version")
OF_AN_ABLATION = ("uri", "experiment", "experiment_id", "run_id", "command_line", "repeated")


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
    # As text: an empty cell is no row, and `nan` is a row that holds no number.
    tables = [
        (child, pd.DataFrame({name: child.rows[name].map(repr) for name in names if name in child.rows}).sort_index())
        for child in ablation.children
    ]
    return "".join(f"{HEAD}{line}\n" for line in lines) + _write_lines(tables, names)


def write_problems(ablation: AblationRows) -> str:
    """The accuracy on each held-out problem at the evaluations that the primary metric is made of; "" without any."""
    used = [(child, child.problems[child.problems.index.isin(weights.index)])
            for child, weights in find_weights(ablation, find_primary(ablation))]  # fmt: skip
    names = sorted({str(name) for _, table in used for name in table.columns[table.notna().any()]})
    return _write_lines(used, names) if names else ""


def read_csv(path: Path) -> AblationRows:
    """The ablation stored in a file of rows. Raises ConfigError if it is no such file."""
    try:
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines(keepends=True)
        head = yaml.safe_load("".join(line.removeprefix(HEAD) for line in lines if line.startswith(HEAD)))
        of = {name: head[name] for name in OF_AN_ABLATION} | {"definition": Ablation.model_validate(head["definition"])}
        children = {
            (each["variant"], each["seed"]): ChildRows(
                **each, settings=dict(head["settings"][each["variant"]]), rows={}
            )
            for each in head["children"]
        }
        for key, table in _read_lines("".join(line for line in lines if not line.startswith(HEAD))):
            values = {str(name): cells.dropna().astype(float) for name, cells in table.items()}
            children[key].rows = {name: rows for name, rows in values.items() if len(rows)}
        problems = problems_path(path)
        for key, table in _read_lines(problems.read_text(encoding="utf-8") if problems.exists() else ""):
            children[key].problems = table.astype(float)
        return AblationRows(**of, children=list(children.values()))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: not the rows of an ablation, as `ares report` writes them ({error})") from error


def _write_lines(tables: list[tuple[ChildRows, pd.DataFrame]], names: list[str]) -> str:
    """A line for each child and index of its table, a column for each name."""
    lines = [
        table.reindex(columns=names).set_axis(
            pd.MultiIndex.from_product([[child.variant], [child.seed], table.index], names=OF_A_LINE)
        )
        for child, table in tables
    ]
    empty = pd.DataFrame(columns=names, index=pd.MultiIndex.from_product([[], [], []], names=OF_A_LINE))
    return pd.concat(lines or [empty]).to_csv(lineterminator="\n")


def _read_lines(text: str) -> Iterator[tuple[tuple[str, int], pd.DataFrame]]:
    """The cells of each child as text, by step and name; NaN where one is empty, "nan" where it says so."""
    kinds: dict[str, type] = defaultdict(lambda: object, variant=str, seed=int, step=int)
    if text:
        table = pd.read_csv(
            io.StringIO(text), index_col=OF_A_LINE, dtype=kinds, keep_default_na=False, na_values=[""]
        )  # fmt: skip
        for (variant, seed), lines in table.groupby(level=["variant", "seed"]):
            yield (str(variant), int(str(seed))), lines.droplevel(["variant", "seed"])
