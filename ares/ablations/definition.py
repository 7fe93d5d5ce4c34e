"""An ablation: variants of one profile, each trained over the same seeds; its file and its child runs.

Covered: reading `profiles/ablations/NAME.yaml` (or a path), the settings of every child run, refusing what cannot be
compared. docs/ablations.md shows a file. Not covered: running the children (flows/ablate.py), comparing them
(ares/ablations/comparison.py).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from algorithms.buckets import BUCKETS
from ares.config import (
    PROFILES,
    Config,
    ConfigError,
    Override,
    Strict,
    differences,
    explain,
    load,
    nearest,
    read_yaml,
)
from ares.data import Problems
from ares.evaluation import digest_problems
from ares.store import RULE, is_name

ABLATIONS = PROFILES / "ablations"
AREA = "area/"
"""Prefix of a metric's mean over the tokens sampled on the way."""
SAME = (
    "validation.", "reward.accuracy", "reward.answer", "reward.computed", "reward.code.accuracy",
    "reward.code.cpu_seconds", "reward.code.memory_mb", "reward.code.packages", "reward.code.untrusted",
)  # fmt: skip
"""Settings, or sections, in which variants may not differ: held-out responses would be measured by other rules."""
WHOLE_REWARD = ("reward.kind", "reward.by_row", "reward.weights", "reward.judge", "reward.model")
"""Nor in these, unless reward.accuracy names what is right."""
HELD_OUT = (
    "accuracy", "pass_at_n", "response_length", "format", "clip_ratio", "denoising_passes", "reward", "pass_ratio",
    *(f"{bucket}_share" for bucket in BUCKETS),
)  # fmt: skip
"""Metrics of held-out problems, `val/NAME` and `val/SET/NAME`."""
HELD_OUT_GROUPS = ("rewards", "episode", "error")
"""Further ones are `val/GROUP/…`: of functions, of environments, of the endings of programs."""


def _check_name(name: str) -> str:
    if not is_name(name):
        raise ConfigError(f"it is made of {RULE}")
    return name


Name = Annotated[str, AfterValidator(_check_name)]


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
    """The variant that each other one is compared with, seed by seed. None: the first one."""
    primary: str = "val/accuracy"
    """The metric that a claim is made about, at the last step; `area/METRIC`: its mean over the tokens sampled on the
    way. It is stored before the first child starts, and stays."""
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
    def _refuse_repeated_seeds(cls, seeds: list[int]) -> list[int]:
        if len(set(seeds)) < len(seeds):
            raise ValueError("a seed is named twice")
        return seeds

    @model_validator(mode="after")
    def _check_baseline(self) -> "Ablation":
        if self.against not in self.variants:
            raise ValueError(f"baseline: {self.against!r} is none of the variants ({', '.join(self.variants)})")
        return self

    @property
    def against(self) -> str:
        """The baseline."""
        return self.baseline or next(iter(self.variants))

    def name_child(self, variant: str, seed: int) -> str:
        """The run of a child."""
        return f"{self.name}-{variant}-seed{seed}"

    @property
    def metric(self) -> str:
        """The logged metric that `primary` is made of."""
        return self.primary.removeprefix(AREA)

    @property
    def fixed(self) -> dict[str, Any]:
        """What is fixed before the first child starts."""
        named = self.model_dump(mode="json", include={"primary", "maximise", "no_worse", "interaction", "equal_tokens"})
        return named | {"baseline": self.against}

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


def list_ablations() -> list[str]:
    """Names of the shipped ablations."""
    return sorted(path.stem for path in ABLATIONS.glob("*.yaml"))


def read_ablation(ablation: str, name: str | None = None) -> tuple[Ablation, Path]:
    """The ablation of this name in profiles/ablations, or of this path, and its file. `name` replaces the file's own.

    Raises ConfigError naming file and field.
    """
    path = Path(ablation) if ablation.endswith((".yaml", ".yml")) else ABLATIONS / f"{ablation}.yaml"
    if not os.path.exists(path):
        raise ConfigError(f"There is no ablation {ablation!r} ({nearest(ablation, list_ablations())})")
    fields = read_yaml(path)
    if not isinstance(fields, dict):
        raise ConfigError(f"{path}: an ablation is a mapping ({', '.join(Ablation.model_fields)})")
    try:
        return Ablation.model_validate(fields if name is None else fields | {"name": name}), path
    except ValidationError as error:
        raise ConfigError(f"{path}: {explain(error, Ablation)}") from error


def list_children(ablation: Ablation, source: Path, extra: list[Override] | None = None) -> list[Child]:
    """Every run of the ablation with its resolved settings; `extra` overrides apply to all of them.

    Seeds vary slowest, so that every variant has a finished child early. Raises ConfigError naming the file, the
    variant and the field.
    """
    children = [_resolve(ablation, source, variant, seed, extra or []) for seed in ablation.seeds
                for variant in ablation.variants]  # fmt: skip
    first = children[0]
    for child in children[: len(ablation.variants)]:
        where = f"{source}: variant {child.variant!r}"
        for metric in sorted(ablation.judged):
            if need := _find_need(metric, child.config):
                raise ConfigError(f"{where}: metric {metric!r} needs {need}")
        for name, wire in child.config.watch.wires.items():
            if wire.action == "rewind":
                raise ConfigError(f"{where}: watch.{name}.action=rewind would go on as another run: set pause or warn")
        if child.config.train.steps != first.config.train.steps:
            raise ConfigError(f"{where}: train.steps is one for all, or they would be compared at different steps")
        is_named = isinstance(first.config.reward.accuracy, str) and isinstance(child.config.reward.accuracy, str)
        same = SAME if is_named else (*SAME, *WHOLE_REWARD)
        if other := [each for each in differences(first.config, child.config) if each.startswith(same)]:
            raise ConfigError(f"{where} is judged otherwise than {first.variant!r} ({'; '.join(other)})")
    return children


def check_same_problems(held_out: Mapping[str, Problems | None]) -> None:
    """Raise ConfigError if variants have different held-out problems; their templates may be different ones."""
    (first, known), *others = held_out.items()
    for variant, problems in others:
        if _identify(problems) != _identify(known):
            counts = " and ".join(str(0 if each is None else len(each)) for each in (known, problems))
            raise ConfigError(
                f"variants {first!r} and {variant!r} have different held-out problems ({counts}), so they cannot be "
                "compared: look for differences in data.*"
            )


def _identify(problems: Problems | None) -> tuple[list[str], str] | None:
    return None if problems is None else (problems.frame["id"].tolist(), digest_problems(problems.frame))


def _find_need(metric: str, config: Config) -> str | None:
    """What a metric of held-out problems needs and lacks."""
    data, validation = config.data, config.validation
    place, _, rest = metric.partition("/")
    name, of_a_set, of_it = rest.partition("/")
    if place != "val":
        return None
    if data.validation is None:
        return "held-out problems: set data.validation"
    if rest == "second_turn/accuracy":
        return "validation.turns=2" if validation.turns == 1 else None
    if rest == "few_steps/accuracy":
        return "validation.few_steps" if validation.few_steps is None else None
    if of_a_set and name == "ema" and name not in data.held_out_names:
        return "learner.ema" if config.learner.ema is None else _find_need(f"val/{of_it}", config)
    if of_a_set and name in data.held_out_names:
        rest = of_it
    elif of_a_set and name not in HELD_OUT_GROUPS:
        return f"a held-out set called {name!r} (data.validation names {', '.join(data.held_out_names) or 'none'})"
    if not rest.startswith(tuple(f"{group}/" for group in HELD_OUT_GROUPS)) and rest not in HELD_OUT:
        return f"another name ({nearest(rest, HELD_OUT)})"
    if rest.startswith(("pass_ratio", "error/")) and not config.reward.judges_programs:
        return "reward.kind=code"
    return None


def _resolve(ablation: Ablation, source: Path, variant: str, seed: int, extra: list[Override]) -> Child:
    is_path = ablation.profile.endswith((".yaml", ".yml"))
    profile = str(source.parent / ablation.profile) if is_path else ablation.profile
    budget = [] if ablation.equal_tokens is None else [f"train.tokens={ablation.equal_tokens}"]
    overrides = (*ablation.overrides, *ablation.variants[variant], *extra, f"train.seed={seed}", *budget,
                 f"tracking.experiment={ablation.name}")  # fmt: skip
    try:
        config = load(profile, list(overrides))
    except ConfigError as error:
        raise ConfigError(f"{source}: variant {variant!r}: {error}") from error
    return Child(ablation.name_child(variant, seed), variant, seed, profile, overrides, config)
