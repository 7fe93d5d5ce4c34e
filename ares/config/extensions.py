"""Extensions that a profile can name: a table from name to implementation for each kind, and one loader.

A built-in name is short for a reference `module:Name`; a user's own is `path/to/file.py:Name`. Whatever is named may
carry its settings in an inner class `Settings(Strict)`: they are checked here and filled in with their defaults, so
that the dry run, the fingerprint and run.json show them. Without one it is given the section that names it.

Covered: the tables (advantage estimators, policy losses, KL controllers, reward designs, graders, engines, trackers),
loading a file, checking its content. Not covered: what an extension does; its interface is in its own package.
"""

import dataclasses
import difflib
import hashlib
import importlib
import inspect
import re
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from ares.config.strict import ConfigError, nearest, reason

UNOPENED = {"extensions": "unopened"}
"""Validation context in which no user file is executed: for settings that are only read back."""
SETTING_ERROR = "extension_setting"
"""Type of an error in the settings of an extension; its location is the field."""
REFERENCE = re.compile(r"(?P<path>.+\.py):(?P<name>\w+)")


@dataclass(frozen=True)
class Builtin:
    """An implementation of ours."""

    where: str
    """module:Name, imported when it is first needed: a class, or a function that makes an instance."""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What the configuration must know about it before it is imported; a user's class has them as attributes."""


@dataclass(frozen=True)
class Kind:
    """One kind of extension: the setting that names it, its table, and what an implementation must have."""

    what: str
    field: str
    """Name of the field that names an implementation, in a section that has `settings` too."""
    methods: tuple[str, ...]
    builtin: Mapping[str, Builtin]
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Facts and their defaults."""
    functions: bool = False
    """A plain function is accepted too."""

    def known(self, name: str, info: ValidationInfo) -> str:
        """Check a name (pydantic calls this). Raises ConfigError, with the known names."""
        if REFERENCE.fullmatch(name):
            if info.context != UNOPENED:
                self.implementation(name)
        elif name not in self.builtin:
            close = difflib.get_close_matches(name, self.builtin, 1)
            hint = f"did you mean {close[0]}? " if close else ""
            raise ConfigError(
                f"there is no {self.what} {name!r}: {hint}known are {', '.join(self.builtin)}, or path/to/file.py:Name"
            )
        return name

    def settled(self, given: dict[str, Any], info: ValidationInfo) -> dict[str, Any]:
        """Check `settings`, and fill in the defaults (pydantic calls this). Errors name the field."""
        name = info.data.get(self.field)
        if name is None or info.context == UNOPENED:
            return given
        model = self.settings_model(name)
        if model is None:
            if given:
                raise ConfigError(f"{name} has no settings of its own (given: {', '.join(given)})")
            return given
        try:
            return model.model_validate(given).model_dump(mode="json")
        except ValidationError as error:
            lines = [_named(line, model) for line in error.errors()]
            raise ValidationError.from_exception_data(self.what, lines) from error

    def implementation(self, name: str) -> Any:
        """The implementation that a name stands for. Raises ConfigError if a file cannot be used."""
        if REFERENCE.fullmatch(name) is None:
            module, _, attribute = self.builtin[name].where.partition(":")
            return getattr(importlib.import_module(module), attribute)
        loaded = load(name)
        if self.functions and callable(loaded) and not isinstance(loaded, type):
            return loaded
        missing = [method for method in self.methods if not callable(getattr(loaded, method, None))]
        if not isinstance(loaded, type) or missing or inspect.isabstract(loaded):
            lacking = ", ".join(missing or sorted(getattr(loaded, "__abstractmethods__", ())) or ["no class"])
            raise ConfigError(f"{name} is no {self.what}: it lacks {lacking} (needed: {', '.join(self.methods)})")
        return loaded

    def fact(self, name: str, fact: str) -> Any:
        """A fact about an implementation, or its default."""
        if name in self.builtin:
            return self.builtin[name].facts.get(fact, self.facts[fact])
        return getattr(self.implementation(name), fact, self.facts[fact])

    def settings(self, section: Any) -> Any:
        """What is passed to the implementation that a section names: its own settings, else the section."""
        model = self.settings_model(getattr(section, self.field))
        return section if model is None else model.model_validate(section.settings)

    def made(self, section: Any, *more: Any) -> Any:
        """The implementation that a section names, made from its settings and whatever else its kind takes."""
        implementation = self.implementation(getattr(section, self.field))
        return getattr(implementation, "create", implementation)(self.settings(section), *more)

    def settings_model(self, name: str) -> type[BaseModel] | None:
        """The settings class that an implementation declares; None if it takes the section."""
        if name in self.builtin:  # they have the fields of the section
            return None
        model: type[BaseModel] | None = getattr(self.implementation(name), "Settings", None)
        if model is None or (model.model_config.get("extra") == "forbid"):
            return model
        raise ConfigError(
            f"{name}: its Settings must derive from ares.config.Strict, so that a misspelt one is refused"
        )


ESTIMATORS = Kind(
    what="advantage estimator",
    field="estimator",
    methods=("estimate",),
    facts={"needs_values": False, "needs_greedy": False, "within_group": False},
    builtin={
        "grpo": Builtin("algorithms.estimators:Grpo", {"within_group": True}),
        "rloo": Builtin("algorithms.estimators:Rloo", {"within_group": True}),
        "reinforce_plus_plus": Builtin("algorithms.estimators:ReinforcePlusPlus"),
        "remax": Builtin("algorithms.estimators:ReMax", {"needs_greedy": True}),
        "gae": Builtin("algorithms.estimators:Gae", {"needs_values": True}),
    },
)
"""needs_values: trains a critic; needs_greedy: one extra greedy answer per prompt; within_group: compares the samples
of a prompt, so that a prompt's second turns may join them."""

KL_CONTROLLERS = Kind(
    what="KL controller",
    field="kind",
    methods=("coefficients", "update", "metrics", "state_dict", "load_state_dict"),
    facts={"in_loss": False, "coef_per_bucket": False, "one_target": False, "divides_by_target": False},
    builtin={
        "fixed": Builtin("algorithms.kl_controllers:fixed_kl"),
        "adaptive": Builtin("algorithms.kl_controllers:adaptive_kl", {"one_target": True, "divides_by_target": True}),
        "token_adaptive": Builtin("algorithms.kl_controllers:dual_ascent_kl", {"coef_per_bucket": True}),
        "bucket_beta": Builtin("algorithms.kl_controllers:bucket_beta", {"in_loss": True, "divides_by_target": True}),
    },
)
"""in_loss: updated by the learner once per optimiser step, else by shaping once per batch. The others say which numbers
of algorithm.kl fit a built-in controller."""

POLICY_LOSSES = Kind(
    what="policy loss",
    field="loss",
    methods=("terms",),
    builtin={"ppo": Builtin("algorithms.losses:PpoLoss")},
)

GRADERS = Kind(
    what="grader",
    field="kind",
    methods=("start", "anticipate", "grade", "forget", "close"),
    facts={"judges_programs": False},
    builtin={
        "math": Builtin("ares.grading.graders:MathGrader"),
        "code": Builtin("ares.grading.graders:code_grader", {"judges_programs": True}),
    },
    functions=True,
)
"""judges_programs: problems have unit tests, and graded rows hold their outcomes."""

REWARD_DESIGNS = Kind(
    what="reward design",
    field="design",
    methods=("reward",),
    facts={"test_weights": None},
    builtin={
        "sparse": Builtin("ares.step.rewards:ShapedDesign"),
        "dense_linear": Builtin("ares.step.rewards:ShapedDesign"),
        "dense_weighted": Builtin("ares.step.rewards:ShapedDesign", {"test_weights": "running"}),
        "outcome_anchor": Builtin("ares.step.rewards:ShapedDesign"),
        "verpo": Builtin("ares.step.rewards:ShapedDesign"),
        "pass_ratio": Builtin("ares.step.rewards:ShapedDesign"),
    },
)
"""test_weights="running": it gets test weights, from how often each test was passed during the run."""

ENGINES = Kind(
    what="rollout engine",
    field="engine",
    methods=("create", "load_weights", "sleep", "stream"),
    facts={"families": ("causal", "vision_language"), "independent": False, "continues": False},
    builtin={
        "transformers": Builtin("ares.engines.vision:reference_engine", {"continues": True}),
        "vllm": Builtin("ares.engines.vllm:VllmEngine", {"continues": True}),
        "diffusion": Builtin("ares.engines.diffusion:DiffusionEngine", {"families": ("masked_diffusion",)}),
    },
)
"""families: values of model.family that it can sample from; independent: a response's bits do not depend on those
generated beside it; continues: the noise after a request's `begun` tokens differs from that which drew them."""

TRACKERS = Kind(
    what="tracker",
    field="kind",
    methods=("catch_up", "finish"),
    builtin={"mlflow": Builtin("ares.reports.mlflow:Tracking")},
)

KINDS: tuple[tuple[str, Kind], ...] = (
    ("algorithm.advantage", ESTIMATORS),
    ("algorithm.policy", POLICY_LOSSES),
    ("algorithm.kl", KL_CONTROLLERS),
    ("reward", GRADERS),
    ("reward.code", REWARD_DESIGNS),
    ("rollout", ENGINES),
    ("tracking", TRACKERS),
)
"""Every section that names an extension."""


def extension_files(config: BaseModel) -> dict[Path, str]:
    """The user's files that a configuration executes, as they are named, and the settings that name them.

    Their imports are not included: an extension is one file.
    """
    files: dict[Path, str] = {}
    for setting, named in _named_extensions(config):
        reference = REFERENCE.fullmatch(named)
        if reference:
            files.setdefault(Path(reference["path"]), setting)
    return files


def _named_extensions(config: BaseModel) -> Iterator[tuple[str, str]]:
    """Every setting that may name a file, and each name it holds."""
    for section, field in [*((section, kind.field) for section, kind in KINDS), ("reward", "accuracy")]:
        value: Any = config
        for part in (*section.split("."), field):
            value = getattr(value, part)
        for name in value if isinstance(value, tuple) else (value,):
            if isinstance(name, str):
                yield f"{section}.{field}", name


_loaded: dict[tuple[Path, str], types.ModuleType] = {}


def load(reference: str) -> Any:
    """What `path/to/file.py:Name` names; a file is executed once per content. Raises ConfigError."""
    named = REFERENCE.fullmatch(reference)
    if named is None:
        raise ConfigError(f"{reference!r} is not of the form path/to/file.py:Name")
    path = Path(named["path"])
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"there is no Python file {path}: {error.strerror}") from error
    key = path.resolve(), hashlib.sha256(source).hexdigest()
    if key not in _loaded:
        _loaded[key] = _executed(path, source)
    value = getattr(_loaded[key], named["name"], None)
    if value is None:
        names = [name for name in vars(_loaded[key]) if not name.startswith("_")]
        close = difflib.get_close_matches(named["name"], names, 1)
        raise ConfigError(f"{path} has no {named['name']!r}" + (f": did you mean {close[0]}?" if close else ""))
    return value


def _executed(path: Path, source: bytes) -> types.ModuleType:
    # A unique name: a file called random.py must not shadow the library's.
    module = types.ModuleType(f"ares_extension_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses and pickle look a class's module up there
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except SyntaxError as error:
        raise ConfigError(f"{path}:{error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        raise ConfigError(f"{path}:{lines[-1] if lines else 1}: {type(error).__name__}: {error}") from error
    return module


def _named(line: Any, model: type[BaseModel]) -> InitErrorDetails:
    """An error in an extension's settings; for an unknown name, with the known ones."""
    text = reason(line)
    if line["type"] == "extra_forbidden":
        text = f"unknown ({nearest(str(line['loc'][-1]), model.model_fields)})"
    escaped = text.replace("{", "{{").replace("}", "}}")
    return InitErrorDetails(type=PydanticCustomError(SETTING_ERROR, escaped), loc=line["loc"], input=line["input"])
