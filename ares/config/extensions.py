"""Extensions that a profile can name: a table from name to implementation for each kind, and one loader.

A built-in name is short for a reference `module:Name`; a user's own is `path/to/file.py:Name`. Whatever is named may
carry its settings in an inner class `Settings(Strict)`: they are checked here and filled in with their defaults, so
that the dry run, the fingerprint and run.json show them. Without one it is given the section that names it.

Covered: the tables (advantage estimators, policy losses, KL controllers, reward designs, graders, engines, trackers),
loading a file, checking its content. Not covered: what an extension does; its interface is in its own package.
"""

import hashlib
import importlib
import inspect
import re
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from algorithms.settings import OWN_SETTINGS
from ares.config.paths import seen_from
from ares.config.strict import ConfigError, explain, nearest

REFERENCE = re.compile(r"(?P<path>.+\.py):(?P<name>\w+)")


@dataclass(frozen=True)
class Kind:
    """One kind of extension: the setting that names it, its table, and what an implementation must have."""

    section: str
    """Dotted name of the section that names an implementation; it has a field `settings` too."""
    key: str
    """The setting in it, with the implementation's name."""
    what: str
    """With its article, for errors."""
    methods: tuple[str, ...]
    builtin: Mapping[str, str]
    """Ours: name → module:Name, imported when it is first needed: a class, or a function that makes an instance."""
    facts: Mapping[str, tuple[Any, Mapping[str, Any]]] = field(default_factory=dict)
    """What the configuration must know of an implementation before it is imported: fact → default, and what it is of
    ours; a user's class has it as an attribute."""
    functions: bool = False
    """A plain function is accepted too."""

    @property
    def setting(self) -> str:
        """Dotted name of the setting."""
        return f"{self.section}.{self.key}"

    def implementation(self, name: str) -> Any:
        """What a name stands for. Raises ConfigError for an unknown name, and for a file that cannot be used."""
        if name in self.builtin:
            module, _, attribute = self.builtin[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        if not REFERENCE.fullmatch(name):
            raise ConfigError(f"{name!r} is not {self.what} ({nearest(name, self.builtin)}), nor path/to/file.py:Name")
        loaded = load_reference(name)
        if self.functions and callable(loaded) and not isinstance(loaded, type):
            return loaded
        missing = [method for method in self.methods if not callable(getattr(loaded, method, None))]
        if not isinstance(loaded, type) or missing or inspect.isabstract(loaded):
            lacking = ", ".join(missing or sorted(getattr(loaded, "__abstractmethods__", ())) or ["no class"])
            raise ConfigError(f"{name} is not {self.what}: it lacks {lacking} (needed: {', '.join(self.methods)})")
        return loaded

    def fact(self, name: str, fact: str) -> Any:
        """A fact about an implementation, or its default."""
        default, known = self.facts[fact]
        return known.get(name, default) if name in self.builtin else getattr(self.implementation(name), fact, default)

    def settings_of(self, section: Any) -> BaseModel:
        """What the implementation that a section names is given: its own settings, complete, else the section.

        Raises ConfigError that names what is wrong.
        """
        name = getattr(section, self.key)
        theirs = isinstance(name, str) and name not in self.builtin
        model: type[BaseModel] | None = (
            getattr(self.implementation(name), "Settings", None) if theirs else OWN_SETTINGS.get(str(name))
        )
        where = f"{self.section}.settings"
        if model is None:
            if section.settings:
                raise ConfigError(f"{where}: {name} has no settings of its own (given: {', '.join(section.settings)})")
            return section
        try:
            return model.model_validate(section.settings)
        except ValidationError as error:
            raise ConfigError(explain(error, model, where)) from error

    def make(self, section: Any, *more: Any) -> Any:
        """The implementation that a section names, made from its settings and from more."""
        implementation = self.implementation(getattr(section, self.key))
        return getattr(implementation, "create", implementation)(self.settings_of(section), *more)


ESTIMATORS = Kind(
    "algorithm.advantage", "estimator", "an advantage estimator", ("estimate",),
    {
        "grpo": "algorithms.estimators:grpo",
        "gdpo": "algorithms.estimators:gdpo",
        "maxrl": "algorithms.estimators:maxrl",
        "pass_at_k": "algorithms.estimators:pass_at_k",
        "rloo": "algorithms.estimators:rloo",
        "rloo_by_turn": "algorithms.estimators:rloo_by_turn",
        "reinforce_plus_plus": "algorithms.estimators:reinforce_plus_plus",
        "remax": "algorithms.estimators:remax",
        "gae": "algorithms.estimators:gae",
        "none": "algorithms.estimators:none",
    },
    {
        "needs_values": (False, {"gae": True}),
        "needs_greedy": (False, {"remax": True}),
        "within_group": (False, dict.fromkeys(("grpo", "gdpo", "maxrl", "pass_at_k", "rloo"), True)),
        "by_turn": (False, {"rloo_by_turn": True}),
        "zero_or_one": (False, {"maxrl": True, "pass_at_k": True}),
    },
)  # fmt: skip
"""needs_values: trains a critic; needs_greedy: one extra greedy answer per prompt; within_group: compares the samples
of a prompt, so that a prompt's second turns may join them; by_turn: the rewards of an episode's turns are where they
were given; zero_or_one: takes no other rewards."""

KL_CONTROLLERS = Kind(
    "algorithm.kl", "kind", "a KL controller", ("coefficients", "update", "metrics", "state_dict", "load_state_dict"),
    {
        "fixed": "algorithms.kl_controllers:FixedKL",
        "adaptive": "algorithms.kl_controllers:AdaptiveKL",
        "token_adaptive": "algorithms.kl_controllers:DualAscentKL",
        "bucket_beta": "algorithms.kl_controllers:BucketBeta",
    },
    {"in_loss": (False, {"bucket_beta": True})},
)  # fmt: skip
"""in_loss: updated by the learner once per optimiser step, else by shaping once per batch."""

POLICY_LOSSES = Kind(
    "algorithm.policy", "loss", "a policy loss", ("terms",),
    {
        "ppo": "algorithms.losses:ppo",
        "cispo": "algorithms.surrogates:cispo",
        "sapo": "algorithms.surrogates:sapo",
        "gmpo": "algorithms.surrogates:gmpo",
        "dppo": "algorithms.surrogates:dppo",
        "vespo": "algorithms.surrogates:vespo",
        "clip_cov": "algorithms.surrogates:ClipCov",
        "kl_cov": "algorithms.surrogates:KlCov",
        "sft": "algorithms.supervised:likelihood",
        "dpo": "algorithms.supervised:likelihood",
    },
    {
        "chooses": (False, {"clip_cov": True, "kl_cov": True}),
        "learns_from": ("samples", {"sft": "demonstrations", "dpo": "pairs"}),
    },
)  # fmt: skip
"""chooses: has a method `choose`, which sees the whole global batch; learns_from: the policy's `samples`, or the
rows of data.train as `demonstrations` or `pairs`."""

GRADERS = Kind(
    "reward", "kind", "a grader", ("start", "anticipate", "grade", "forget", "close"),
    {
        "math": "ares.grading.graders:MathGrader",
        "code": "ares.grading.code:CodeGrader",
        "reasoning_gym": "rewards.procedural:reasoning_gym",
        "environment": "ares.grading.graders:environment_scores",
        "judge": "ares.grading.judge:JudgeScorer",
        "model": "ares.grading.reward_model:RewardModelScorer",
    },
    {"judges_programs": (False, {"code": True})},
    functions=True,
)  # fmt: skip
"""judges_programs: problems have unit tests, and graded rows hold their outcomes."""

REWARD_DESIGNS = Kind(
    "reward.code", "design", "a reward design", ("reward",),
    dict.fromkeys(
        ("sparse", "dense_linear", "dense_weighted", "outcome_anchor", "verpo", "pass_ratio"),
        "rewards.shaping:shape_code_rewards",
    ),
    {"test_weights": (None, {"dense_weighted": "running"})},
)  # fmt: skip
"""Ours are branches of one function. test_weights="running": it gets test weights, from how often each test was passed
during the run."""

ENGINES = Kind(
    "rollout", "engine", "a rollout engine", ("create", "load_weights", "sleep", "stream"),
    {
        "transformers": "ares.engines.transformers:TransformersEngine",
        "vllm": "ares.engines.vllm:VllmEngine",
        "diffusion": "ares.engines.diffusion:DiffusionEngine",
    },
    {
        "families": (("causal", "vision_language"), {"diffusion": ("masked_diffusion",)}),
        "independent": (False, {}),
        "continues": (False, {"transformers": True, "vllm": True}),
    },
)  # fmt: skip
"""families: values of model.family that it can sample from; independent: a response's bits do not depend on those
generated beside it; continues: the noise after a request's `begun` tokens differs from that which drew them."""

TRACKERS = Kind(
    "tracking", "kind", "a tracker", ("catch_up", "finish"),
    {
        "mlflow": "ares.reports.mlflow:Tracking",
        "jsonl": "ares.reports.trackers:JsonLines",
        "tensorboard": "ares.reports.trackers:TensorBoard",
        "wandb": "ares.reports.trackers:WeightsAndBiases",
        "trackio": "ares.reports.trackers:Trackio",
    },
)  # fmt: skip

KINDS = (ESTIMATORS, POLICY_LOSSES, KL_CONTROLLERS, GRADERS, REWARD_DESIGNS, ENGINES, TRACKERS)


def open_extensions(config: BaseModel) -> None:
    """Load the extensions that a configuration names, and fill in the defaults of their settings.

    Raises ConfigError for an unknown name, a file that cannot be used, wrong settings.
    """
    for kind, setting, name in _named_extensions(config):
        try:
            if name not in kind.builtin:  # ours are imported when they are needed
                kind.implementation(name)
        except ConfigError as error:
            raise ConfigError(f"{setting}: {error}") from error
    for kind in KINDS:
        section = attrgetter(kind.section)(config)
        if (own := kind.settings_of(section)) is not section:
            section.settings = own.model_dump(mode="json")


def extension_files(config: BaseModel) -> dict[Path, str]:
    """The user's files that a configuration executes, as they are named, and the settings that name them.

    Their imports are not included: an extension is one file.
    """
    files: dict[Path, str] = {}
    for _, setting, name in _named_extensions(config):
        if reference := REFERENCE.fullmatch(name):
            files.setdefault(Path(reference["path"]), setting)
    environment = getattr(config, "environment", None)
    for name in () if environment is None else (environment.kind, *environment.tools):
        if reference := REFERENCE.fullmatch(name):
            files.setdefault(Path(reference["path"]), "environment")
    return files


def _named_extensions(config: BaseModel) -> Iterator[tuple[Kind, str, str]]:
    """Every name of an extension, with its kind and the setting that holds it."""
    for kind in KINDS:
        names = attrgetter(kind.setting)(config)
        for name in names if isinstance(names, tuple) else (names,):
            yield kind, kind.setting, name
    accuracy = attrgetter("reward.accuracy")(config)  # a number, the name of a part, or a function
    if isinstance(accuracy, str) and REFERENCE.fullmatch(accuracy):
        yield GRADERS, "reward.accuracy", accuracy


_loaded: dict[tuple[Path, str], types.ModuleType] = {}


def load_reference(reference: str) -> Any:
    """What `path/to/file.py:Name` names; a file is executed once per content. Raises ConfigError."""
    named = REFERENCE.fullmatch(reference)
    if named is None:
        raise ConfigError(f"{reference!r} is not of the form path/to/file.py:Name")
    path = Path(named["path"])
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"there is no Python file {path}{seen_from(path)}: {error.strerror}") from error
    key = path.resolve(), hashlib.sha256(source).hexdigest()
    if key not in _loaded:
        _loaded[key] = _execute(path, source)
    value = getattr(_loaded[key], named["name"], None)
    if value is None:
        names = [name for name in vars(_loaded[key]) if not name.startswith("_")]
        raise ConfigError(f"{path} has no {named['name']!r} ({nearest(named['name'], names)})")
    return value


def _execute(path: Path, source: bytes) -> types.ModuleType:
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
