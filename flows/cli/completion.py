"""What the shell offers after TAB: profiles, suites, runs, settings (`ares --install-completion`).

Not covered: commands and options, which typer knows.
"""

import os
from pathlib import Path


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


def settings(incomplete: str) -> list[str]:
    """Settings (`ares settings` lists their values)."""
    from ares.config import defaults, sections

    names = [f"{section.name}.{setting.name}=" for section in sections(defaults()) for setting in section.settings]
    return [name for name in names if name.startswith(incomplete)]
