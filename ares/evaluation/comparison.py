"""Compare two evaluations of the same problems: paired differences over problems, and which problems each solves.

Covered: reading the other evaluation, refusing one that was measured differently, t interval and p. Not covered:
several seeds of a training run (`ares ablate`): here both policies are fixed, and intervals cover which problems were
drawn and, through their values, the sampling.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ares.config import Config, ConfigError, result_settings
from ares.data import ASKED, Problems, digest_of
from ares.evaluation.paired import estimate

SAME = (
    "reward.", "environment", "rollout.max_response_length", "rollout.top_p", "data.system_prompt",
    "data.format_prompt",
)  # fmt: skip
"""Settings and prefixes of settings that must be equal in two evaluations."""
DESCRIBED = ("suite", "form", "samples", "temperature", "packages", "turns")
"""What must be equal of an evaluation's description, as must the digests of files that settings of SAME name."""
PROMPTS_AND_TESTS = "prompts and tests"
OF_PROBLEMS = (
    ASKED, "answer", "test_cases", "stdin_tests", "setup", "entry_point", "checker", "time_limit", "begun", "stops",
)  # fmt: skip
"""Columns of problems that must be equal. The rendered prompt may differ, since each model has its own template."""


def measured(config: Config, problems: Problems, description: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that must be equal in two evaluations besides the ids of their problems.

    description: of this evaluation (summary.json).
    """
    of_settings = {name: value for name, value in result_settings(config).items() if name.startswith(SAME)}
    of_files = {name: value for name, value in description.items() if name.startswith(SAME)}
    return {name: description.get(name) for name in DESCRIBED} | {
        PROMPTS_AND_TESTS: digest_problems(problems.frame),
        **of_settings,
        **of_files,
    }


def digest_problems(problems: pd.DataFrame) -> str:
    """Hash of prompts, before a template, and of what responses are judged by; without ids, in the rows' order."""
    return digest_of(problems[[name for name in OF_PROBLEMS if name in problems]])


@dataclass(frozen=True)
class ComparedEvaluation:
    """Another finished evaluation."""

    folder: Path
    summary: dict[str, Any]
    problems: pd.DataFrame

    @classmethod
    def read(cls, name: str) -> "ComparedEvaluation":
        """By its folder. Raises ConfigError."""
        folder = Path(name).resolve()
        try:
            summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
            problems = pd.read_parquet(folder / "problems.parquet")
        except FileNotFoundError as error:
            raise ConfigError(f"--compare {name}: no folder of a finished evaluation (`ares eval` names it)") from error
        except (OSError, ValueError) as error:
            raise ConfigError(f"--compare {name}: it cannot be read: {error}") from error
        return cls(folder, summary, problems)

    def check(self, problems: pd.DataFrame, measured: dict[str, Any]) -> None:
        """Raise ConfigError, naming every difference, if this evaluation has other problems or settings."""
        before = self.summary.get("measured", {})
        if set(problems["id"]) == set(self.problems["id"]):  # they are paired by id
            in_their_order = problems.set_index("id").loc[self.problems["id"]]
            measured = measured | {PROMPTS_AND_TESTS: digest_problems(in_their_order)}
            changed = []
        else:
            changed = [f"problems: {len(self.problems)} → {len(problems)}"]
        changed += [f"{name}: {before.get(name)} → {measured.get(name)}" for name in {**before, **measured}
                    if before.get(name) != measured.get(name)]  # fmt: skip
        if changed:
            raise ConfigError(
                f"--compare: {self.folder.name} was measured otherwise, so that problems cannot be paired:\n  "
                + "\n  ".join(changed)
                + "\nEvaluate both in the same way."
            )


def compared(
    problems: pd.DataFrame, measures: Sequence[str], samples: int, other: ComparedEvaluation
) -> dict[str, Any]:
    """This evaluation's problems against the other's: differences are this minus other.

    Of each measure: both means, the mean difference with its t interval and p, which are None where all differ alike.
    solved: problems with at least one correct sample.
    """
    mine, theirs = problems.set_index("id"), other.problems.set_index("id").loc[problems["id"]]
    both = (mine["samples"] > 0) & (theirs["samples"] > 0)
    one, two = mine["correct"][both] > 0, theirs["correct"][both] > 0
    return {
        "with": other.folder.name,
        "target": other.summary["target"],
        "step": other.summary["step"],
        "measures": {name: _difference(mine[name], theirs[name]) for name in measures if name in theirs},
        "solved": {
            "by": "the answer" if samples == 1 else f"at least one of {samples} samples",
            "both": int((one & two).sum()),
            "only_this": int((one & ~two).sum()),
            "only_other": int((two & ~one).sum()),
            "neither": int((~one & ~two).sum()),
        },
    }


def _difference(mine: pd.Series, theirs: pd.Series) -> dict[str, Any]:
    known = mine.notna() & theirs.notna()
    one, two = (each[known].to_numpy(dtype=np.float64) for each in (mine, theirs))
    if len(one) < 2:
        return {"problems": len(one)}
    found = estimate(one - two)
    return {
        "problems": found.count,
        "this": float(one.mean()),
        "other": float(two.mean()),
        "difference": found.mean,
        "low": None if found.p is None else found.low,
        "high": None if found.p is None else found.high,
        "p": found.p,
    }
