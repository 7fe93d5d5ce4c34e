"""An ablation: variants of one profile, each trained over the same seeds; its file and its child runs.

Covered: reading `profiles/ablations/NAME.yaml` (or a path), the settings of every child run, refusing what cannot be
compared. Not covered: running the children (flows/ablate.py), comparing them (ares/ablations/report.py).

    name: code-rewards
    profile: tiny-code-hard
    overrides: [train.steps=40]              # of every child
    variants:                                # at least two; an empty list is the profile as it is
      sparse: [reward.code.design=sparse]
      dense: [reward.code.design=dense_linear]
    seeds: [0, 1, 2]
    baseline: sparse                         # compared with seed by seed
    primary: val/accuracy                    # the one claim; `area/val/accuracy`: its mean over sampled tokens
    maximise: true
    no_worse: {val/level1/accuracy: 0.02}    # not by more than this below the baseline's
    interaction: [val/level1/response_length, val/level4/response_length]   # does one change more than the other?
    equal_tokens: 100000                     # children end at so many sampled tokens
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field, ValidationError, field_validator, model_validator

from ares.config import (
    PROFILES,
    Config,
    ConfigError,
    Override,
    Strict,
    explained,
    fingerprint,
    is_there,
    load,
    read_yaml,
    reason,
)
from ares.store import RULE, is_name

ABLATIONS = PROFILES / "ablations"
OWN = ("train.seed", "train.tokens", "tracking.experiment", "tracking.parent_run", "tracking.tags",
       "reward.code.verdicts")  # fmt: skip
"""Settings that the ablation sets in every child."""
AREA = "area/"
"""Prefix of a metric's mean over the tokens sampled on the way."""
COMMON_ONLY = ("train.steps", "tracking.", "validation.")
"""Settings in which variants may not differ: they would be compared at different steps or by different measures."""


def _name(name: str) -> str:
    if not is_name(name):
        raise ConfigError(f"it is made of {RULE}")
    return name


Name = Annotated[str, AfterValidator(_name)]


class Ablation(Strict):
    """The file of an ablation. Overrides are written as on the command line, `section.field=value`."""

    name: Name
    """Name of the ablation, of its folder of logs and report, and of its MLflow experiment."""
    profile: str
    """What every child extends: a profile's name, or a path seen from the ablation's file."""
    overrides: list[Override] = Field([])
    """Settings of every child."""
    variants: dict[Name, list[Override]] = Field(min_length=2)
    """Name → settings in which the variant differs."""
    seeds: list[Annotated[int, Field(ge=0)]] = Field(min_length=1)
    """train.seed of each child of a variant. Intervals and claims need two or more."""
    baseline: Name | None = None
    """The variant that each other one is compared with, seed by seed. None: intervals of all are compared, unpaired."""
    primary: str = Field("val/accuracy", validation_alias=AliasChoices("primary", "metric"))
    """The metric that a claim is made about, at the last step; `area/METRIC`: its mean over the tokens sampled on the
    way. It is stored before the first child starts, and stays. (`metric` in files of before 2026-11-23.)"""
    maximise: bool = True
    """Whether more of the metric is better."""
    no_worse: dict[str, Annotated[float, Field(gt=0)]] = Field({})
    """Metrics that a variant may bring down by this margin at most: it is no worse where the 95 % interval of the
    difference from the baseline lies above −margin (non-inferiority)."""
    interaction: tuple[str, str] | None = None
    """Two metrics above 0: does the first one change by another share than the second, against the baseline?"""
    equal_tokens: int | None = Field(None, ge=1)
    """Children end with the step that brings their sampled tokens (the bootstrap's too) to this; train.steps is a bound
    that no child should meet."""

    @field_validator("seeds")
    @classmethod
    def _each_seed_once(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is named twice")
        return seeds

    @model_validator(mode="after")
    def _the_baseline_is_a_variant(self) -> "Ablation":
        if self.baseline is not None and self.baseline not in self.variants:
            raise ValueError(f"baseline: {self.baseline!r} is none of the variants ({', '.join(self.variants)})")
        if self.baseline is None and (self.no_worse or self.interaction):
            raise ValueError("no_worse and interaction are told of differences from a `baseline`, which is missing")
        return self

    @property
    def metric(self) -> str:
        """The logged metric that `primary` is made of."""
        return self.primary.removeprefix(AREA)

    @property
    def fixed(self) -> dict[str, Any]:
        """What is fixed before the first child starts."""
        of_words = {"primary": self.primary, "maximise": self.maximise, "baseline": self.baseline}
        return of_words | {"no_worse": self.no_worse, "interaction": self.interaction and list(self.interaction)}

    @property
    def judged(self) -> set[str]:
        """The metrics that children have to log."""
        return {self.metric, *self.no_worse, *(self.interaction or ())}


@dataclass(frozen=True)
class Child:
    """One training run of an ablation."""

    name: str
    variant: str
    seed: int
    profile: str
    overrides: tuple[Override, ...]
    config: Config


def ablation_names() -> list[str]:
    """Names of the shipped ablations."""
    return sorted(path.stem for path in ABLATIONS.glob("*.yaml"))


def read_ablation(ablation: str, name: str | None = None) -> tuple[Ablation, Path]:
    """The ablation of this name in profiles/ablations, or of this path, and its file. `name` replaces the file's own.

    Raises ConfigError naming file and field.
    """
    path = Path(ablation) if ablation.endswith((".yaml", ".yml")) else ABLATIONS / f"{ablation}.yaml"
    if not is_there(path):
        close = difflib.get_close_matches(ablation, ablation_names(), 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise ConfigError(f"There is no ablation {ablation!r} (ablations: {', '.join(ablation_names())}).{hint}")
    fields = read_yaml(path)
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: an ablation is a mapping ({', '.join(Ablation.model_fields)})")
    try:
        return Ablation.model_validate(fields if name is None else fields | {"name": name}), path
    except ValidationError as error:
        raise ConfigError(f"{path}: " + "; ".join(_explain(problem) for problem in error.errors())) from error


def children(ablation: Ablation, source: Path, extra: list[Override] | None = None) -> list[Child]:
    """Every run of the ablation with its resolved settings; `extra` overrides apply to all of them.

    Seeds vary slowest, so that every variant has a finished child early. Raises ConfigError naming the file, the
    variant and the field.
    """
    for override in [*ablation.overrides, *(extra or [])]:
        if _sets(override, OWN):
            raise ConfigError(
                f"{source}: overrides: {override!r} is set by the ablation itself (see `seeds`, `name`, `equal_tokens`)"
            )
    for variant, overrides in ablation.variants.items():
        for override in overrides:
            if _sets(override, OWN + COMMON_ONLY):
                raise ConfigError(f"{source}: variant {variant!r}: {override!r} may not differ between variants")
    members = [_child(ablation, source, variant, seed, extra or []) for seed in ablation.seeds
             for variant in ablation.variants]  # fmt: skip
    _refuse_equal(members, source)
    for metric in sorted(ablation.judged):
        _refuse_unmeasured(metric, members[0].config, source)
    return members


def _refuse_unmeasured(metric: str, config: Config, source: Path) -> None:
    """Raise ConfigError for a metric of held-out problems or of a named set that does not exist."""
    place, _, rest = metric.partition("/")
    if place != "val":
        return
    if config.data.validation is None:
        raise ConfigError(f"{source}: metric {metric!r} needs held-out problems: set data.validation")
    name, of_a_set, _ = rest.partition("/")
    names = config.data.held_out_names
    asked_for = {
        "val/second_turn/accuracy": ("validation.turns=2", config.validation.turns > 1),
        "val/few_steps/accuracy": ("validation.few_steps=…", config.validation.few_steps is not None),
    }
    if metric in asked_for:
        setting, is_measured = asked_for[metric]
        if not is_measured:
            raise ConfigError(f"{source}: metric {metric!r} is measured with {setting}")
        return
    if of_a_set and name not in (*names, "error"):
        known = f"those of data.validation are {', '.join(names)}" if names else "data.validation names none"
        raise ConfigError(f"{source}: metric {metric!r} needs a held-out set called {name!r}: {known}")


def _child(ablation: Ablation, source: Path, variant: str, seed: int, extra: list[Override]) -> Child:
    is_path = ablation.profile.endswith((".yaml", ".yml"))
    profile = str(source.parent / ablation.profile) if is_path else ablation.profile
    budget = [] if ablation.equal_tokens is None else [f"train.tokens={ablation.equal_tokens}"]
    overrides = (*ablation.overrides, *ablation.variants[variant], *extra, f"train.seed={seed}", *budget,
                 f"tracking.experiment={ablation.name}")  # fmt: skip
    try:
        config = load(profile, list(overrides))
    except ConfigError as error:
        raise ConfigError(f"{source}: variant {variant!r}: {error}") from error
    return Child(f"{ablation.name}-{variant}-seed{seed}", variant, seed, profile, overrides, config)


def _sets(override: Override, fields: tuple[str, ...]) -> bool:
    """Whether the override sets one of the fields, something in one, or a section that holds one."""
    name = override.partition("=")[0]
    return any(f"{name}.".startswith(f"{field.rstrip('.')}.") or field.startswith(f"{name}.") for field in fields)


def _refuse_equal(members: list[Child], source: Path) -> None:
    seen: dict[str, Child] = {}
    for child in members:
        other = seen.setdefault(fingerprint(child.config), child)
        if other is not child:
            raise ConfigError(
                f"{source}: variants {other.variant!r} and {child.variant!r} are one and the same: they differ in no "
                "setting that changes results"
            )


def _explain(problem: Any) -> str:
    names = [str(part) for part in problem["loc"]]
    if not names:
        return reason(problem)
    where = f"variant {names[1]!r}" if names[0] == "variants" and len(names) > 1 else names[0]
    return explained(problem, where, Ablation.model_fields)


def differing_settings(settings: dict[str, dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Settings (by variant) in which variants differ: name, and value by variant."""
    for name in sorted(set().union(*settings.values())):
        values = {variant: of_variant.get(name) for variant, of_variant in settings.items()}
        if len({str(value) for value in values.values()}) > 1:
            yield name, values
