"""What the shell offers after TAB: profiles, suites, runs, settings with their values (`ares --install-completion`).

Not covered: commands and options, which typer knows.
"""

import os
import re
from pathlib import Path

import typer

_WORD = re.compile(r"[\w.+/-]+")
"""Words that no shell splits."""


def profile_names(incomplete: str) -> list[str]:
    """Shipped profiles and those of the working directory."""
    from ares.config import profile_names as shipped

    return [name for name in [*shipped(), *sorted(map(str, Path().glob("*.yaml")))] if name.startswith(incomplete)]


def suite_names(incomplete: str) -> list[str]:
    """Published suites."""
    from ares.evaluation import SUITES

    return [name for name in SUITES if name.startswith(incomplete)]


def run_names(incomplete: str) -> list[str]:
    """Runs in the directory of runs; of those at a URL, the ones that are copied here."""
    runs = os.environ.get("ARES_RUNS") or "runs"
    if "://" in runs:
        from ares.store import path_of  # takes a second, which completion of local runs does without

        runs = str(path_of(runs))
    names = [path.parent.name for path in Path(runs).glob("*/run.json")]
    return sorted(name for name in names if name.startswith(incomplete))


def settings(context: typer.Context, incomplete: str) -> list[str]:
    """Settings with each word that they allow, else with their default.

    bash treats `=` as a word of its own, and asks to complete what follows it.
    """
    from ares.config import defaults, sections

    every = {
        f"{section.name}.{setting.name}": [*setting.choices] or [setting.text if _WORD.fullmatch(setting.text) else ""]
        for section in sections(defaults())
        for setting in section.settings
    }
    given = [word for value in context.params.values() if isinstance(value, list | tuple) for word in value]
    *before, last = ["", "", *given]
    name = before[-1] if last == "=" else last
    if name in every:
        return [value for value in every[name] if value.startswith(incomplete)]
    pairs = [f"{name}={value}" for name, values in every.items() for value in values]
    return [pair for pair in pairs if pair.startswith(incomplete)]
