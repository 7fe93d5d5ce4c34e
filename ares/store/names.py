"""Valid names of runs, forks and ablations: one folder on every system, and never mistaken for an option."""

import re

from ares.store.errors import StoreError

LONGEST = 100
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
RULE = f"letters, digits, '.', '_' and '-', a letter or digit first, at most {LONGEST} characters"

TAKEN = ("evals", "mlartifacts", "mlflow.db")
"""What else lies in a directory of runs: evaluations of models, and MLflow's files."""


def is_name(name: str) -> bool:
    """Whether a name is valid."""
    return _NAME.fullmatch(name) is not None


def name_after(text: str) -> str:
    """A valid name made from a text: other characters become dashes."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")[: LONGEST // 2] or "run"


def name_of_rewind(name: str, further: int = 1) -> str:
    """The name of the fork that a run goes back and on as; further: how many of them on."""
    first, _, number = name.rpartition("-rewind-")
    return f"{first}-rewind-{int(number) + further}" if first and number.isdecimal() else f"{name}-rewind-{further}"


def checked_name(name: str) -> str:
    """The name, if it is valid. Raises StoreError, which states the rule."""
    if not is_name(name):
        shown = name if len(name) <= LONGEST else f"{name[:20]}… ({len(name)} characters)"
        raise StoreError(f"{shown!a} cannot be the name of a run or an ablation: {RULE}")
    if name in TAKEN:
        raise StoreError(f"{name!r} cannot be the name of a run: something else of that name lies beside the runs")
    return name
