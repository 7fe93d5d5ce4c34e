"""An evaluation: a policy, problems, and a folder that keeps the samples, so that it can be resumed.

Covered: whose weights (a run's after a step, a model directory's), which settings may differ from the run's, the folder
that belongs to this evaluation alone. Not covered: suites (ares/evaluation/suite_problems.py), sampling and grading
(tasks/sampling.py, the very phases of training), their order (flows/evaluate.py), estimates
(ares/evaluation/estimates.py).

    runs/<run>/evals/<name>/phases.jsonl         what its phases have found
    runs/<run>/evals/<name>/rollout-…, score-…   shards
    runs/<run>/evals/<name>/samples.parquet      one row a sample: response, accuracy, tokens, …
    runs/<run>/evals/<name>/problems.parquet     one row a problem: samples, correct, pass@k
    runs/<run>/evals/<name>/summary.json         the estimates
    runs/<run>/evals/<name>/comparison-….json    against another evaluation (--compare)
"""

import hashlib
import json
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

from ares.config import Config, ConfigError, Override, fingerprint, load, override
from ares.data import Problems, Vision, check_media, check_template, joined, load_held_out, load_tokenizer
from ares.engines import end_token_ids
from ares.evaluation.comparison import ComparedEvaluation, measured
from ares.evaluation.request import EvaluationRequest
from ares.evaluation.suite_problems import load_suite, suite_of
from ares.grading import check_references, load_grader, try_on
from ares.models import check_vocabulary, checked_model
from ares.runs import Run, Step, check_model, identity_of, model_digest, run_files, what_grades
from ares.step import OpenEnvironment
from ares.store import Memo, RunStore, StoreError, file_digest, is_name, name_after, read_config, runs_directory
from ares.workers import PlainWorkers, Workers, check_engine, check_weights, latest_checkpoint

OF_SETS = tuple(f"data.{name}=" for name in ("prompt_key", "answer_key", "tests_key", "id_key", "format_prompt"))
"""Settings that say how rows are asked, which suites know themselves."""
OF_A_RUN = ("data.", "reward.", "environment", "rollout.max_response_length", "rollout.top_p", "rollout.shard_prompts",
             "rollout.max_mismatch", "rollout.diffusion.")  # fmt: skip
"""Settings that may differ from the run's; the others determine its weights."""


class Evaluation(Step):
    """An open evaluation: a step whose artifacts lie in the evaluation's own folder."""

    def __init__(
        self, request: EvaluationRequest, run: Run, version: int, description: dict[str, Any], sets: list[str],
        other: ComparedEvaluation | None = None,
    ) -> None:  # fmt: skip
        super().__init__(run, version)
        self.request = request
        self.description = description
        self.sets = sets
        """Names of the held-out sets, where they have any."""
        self.other = other
        """The evaluation that this one is compared with."""

    @classmethod
    def open(
        cls, request: EvaluationRequest, made_by: Callable[[Config, RunStore, Config], Workers] = PlainWorkers
    ) -> "Evaluation":
        """Check everything before sampling. Raises ConfigError, DataError or StoreError."""
        config, weights_of, version, weights = policy_of(request)
        if not weights_of.exists() and not request.suite and not request.data and request.profile == "base":
            raise ConfigError(
                "Name the problems with --data or --suite, or with --profile a profile that has held-out ones"
            )
        if request.sanity and not config.reward.judges_programs:
            raise ConfigError("--sanity judges reference solutions, of sets with unit tests: reward.kind=code")
        other = None if request.compare is None else ComparedEvaluation.read(request.compare)
        tokenizer = load_tokenizer(config.model.path, config.model.trust_remote_code)
        if request.suite is not None:  # it is answered in one response
            config = config.model_copy(update={"environment": None})
        if request.turns > 1:
            config = _with_second_turns(config, tokenizer)
        sets: list[str] = []
        environment: OpenEnvironment | None = None
        suite: dict[str, Any] = {}
        facts: dict[str, Any] = {}
        if request.suite is not None:
            problems, form, base = load_suite(
                request.suite, request.data, request.form, config.data, tokenizer, request.max_problems
            )
            if request.turns > 1 and form == "completion":
                raise ConfigError("--turns 2 answers in a conversation: it needs --form instruct")
            longest = int(problems.frame["prompt_token_ids"].map(len).max())
            # Published figures count all tests, and nothing is trained on these.
            ours = [f"data.max_prompt_length={longest}", "reward.code.untrusted=accept"]
            config = override(config, ours, trains=False)
            suite, facts = {"suite": request.suite, "form": form}, {"base_tests": base} if base else {}
        else:
            environment = OpenEnvironment.of(config, tokenizer)
            problems, sets = _held_out(request, config, tokenizer, environment)
        check_engine(config)
        ends, prompts = end_token_ids(config.model.location, tokenizer), problems.frame["prompt_token_ids"]
        check_vocabulary(checked_model(config), tokenizer, ends, prompts, config.model.path)
        grader = load_grader(config.reward)
        graded_with = what_grades(config, grader.expect(problems.frame))
        is_run = weights_of.exists()
        description = {
            "target": request.target,
            "step": version if is_run else None,
            "weights": weights,
            "data": problems.digest(),
            "settings": fingerprint(config),
            "samples": request.samples,
            "temperature": 0.0 if request.greedy else config.validation.temperature,
            **suite,
            **({"packages": graded_with} if graded_with else {}),
            **({"turns": request.turns} if request.turns > 1 else {}),
        } | {
            f"{setting} {path}": file_digest(path)
            for path, setting in run_files(config).items()
            if setting.startswith(("reward.", "environment"))
        }
        how_measured = measured(config, problems, description)
        if other is not None:
            other.check(problems.frame, how_measured)
        check_media(problems.frame, problems.source, config.rollout)
        store = RunStore(_folder(request, problems.source, description))
        identity = identity_of(config, {"train": problems.digest(), "model": weights, "graded_with": graded_with})
        run = Run(config, store, tokenizer, problems, problems, identity, grader, environment=environment)
        # A run's weights are rebuilt with its own settings from its own folder; engines get the settings here.
        run.workers = made_by(read_config(weights_of) if is_run else config, weights_of if is_run else store, config)
        if is_run:
            check_weights(weights_of, version)
        facts |= {"source": problems.source, "overlong": problems.overlong, "measured": how_measured}
        if problems.left_out:
            facts["left_out"] = problems.left_out
        facts |= _tried(request, run, sets)
        return cls(request, run, version, description | facts, sets, other)

    def path(self, name: str) -> str:
        """Path of an artifact, relative to the evaluation's folder."""
        return name

    @cached_property
    def memo(self) -> Memo:
        """What its phases have found."""
        return Memo(self.run.store.directory / self.path("phases.jsonl"))


def _held_out(
    request: EvaluationRequest, config: Config, tokenizer: Any, environment: OpenEnvironment | None
) -> tuple[Problems, list[str]]:
    """The problems of the held-out sets of the settings, or of the one that --data names, and the sets' names."""
    data, begin = (config.data, None) if environment is None else (environment.data, environment.begin)
    source = request.data
    if source is not None:
        chosen = {source: data.held_out[source]} if source and source in data.held_out else source
        data = data.model_copy(update={"validation": chosen})
    loaded = load_held_out(data, tokenizer, config.reward.needs, Vision.of(config, runs_directory()), begin)
    if not loaded:
        raise ConfigError("There are no held-out problems in the settings: name a data set with --data, or a --suite")
    return joined({name: each.first(request.max_problems) for name, each in loaded.items()}), data.held_out_names


def _with_second_turns(config: Config, tokenizer: Any) -> Config:
    """The settings with one second turn for each failed program. Raises ConfigError if that is impossible."""
    if not config.reward.judges_programs:
        raise ConfigError("--turns 2 tells a program its verdict: it needs reward.kind=code, or a suite of programs")
    check_template(tokenizer, config.data.chat_template_kwargs)
    # Training needs an estimator that compares within a group; here nothing is trained.
    group = [] if config.algorithm.advantage.within_group else ["algorithm.advantage.estimator=grpo"]
    turns = ["rollout.second_turn.enabled=true", "rollout.second_turn.children=1", "validation.turns=2"]
    return override(config, [*group, *turns], trains=False)


def _tried(request: EvaluationRequest, run: Run, sets: list[str]) -> dict[str, Any]:
    """Start the grader and try it on made-up responses (a user's function) or the reference solutions (--sanity)."""
    run.grader.start()
    try:
        if run.config.reward.is_tried:
            for part in run.train_set.parts(sets):
                try_on(run.grader, part, run.tokenizer)
        if not request.sanity:
            return {}
        known = suite_of(request.suite).known_failures if request.suite is not None else {}
        return {"references": check_references(run.grader, run.train_set, known)}
    except BaseException:
        run.grader.close()
        raise


def _overridden(request: EvaluationRequest) -> list[Override]:
    """The overrides of a suite, those of the request, and those for sampling: one policy draws whole responses.

    A suite's replace a run's reward as a whole: what scores in training need not be what is right here.
    """
    of_suite: list[Override] = []
    if request.suite is not None:
        suite = suite_of(request.suite)
        if given := next((each for each in request.overrides if each.startswith(OF_SETS)), None):
            raise ConfigError(f"{given}: the columns and prompts of --suite {request.suite} are its own")
        limits = {"cpu_seconds": suite.cpu_seconds, "memory_mb": suite.memory_mb}
        of_suite = [
            f"reward={json.dumps({'kind': 'code', 'code': limits})}",
            f"rollout.max_response_length={suite.tokens}",
            "data.format_prompt=null",  # a suite's prompt is whole
        ]
    asked = [] if request.temperature is None else [f"validation.temperature={request.temperature}"]
    return [*of_suite, *request.overrides, "rollout.parts=1", *asked]


def policy_of(request: EvaluationRequest) -> tuple[Config, RunStore, int, str]:
    """Settings, the store that holds the weights (of a model: none), their version and their digest.

    Raises ConfigError or StoreError."""
    store = RunStore(runs_directory() / request.target)
    if not is_name(request.target) or not store.exists():
        return _model(request, store)
    wrong = [each for each in request.overrides if not each.startswith(OF_A_RUN)]
    if wrong or request.profile != "base":
        raise ConfigError(
            f"{', '.join(wrong) or '--profile'}: the settings of a run belong to its weights; an evaluation may change "
            f"{', '.join(name.rstrip('.') for name in OF_A_RUN)} only"
        )
    own = read_config(store)
    steps = store.committed_steps()
    step = request.step
    if step is None:
        step, _ = latest_checkpoint(store)
        if not step:
            raise StoreError(
                f"Run {store.name!r} has no checkpoint yet: name the weights with --step (0: those it began with)"
            )
    if step not in steps:
        raise StoreError(f"Run {request.target!r} has no committed step {step} (steps 0 to {len(steps) - 1})")
    config = override(own, _overridden(request), trains=False)
    check_model(store, config, replays=True)
    return config, store, step, store.read_commit(step).digest()[:16]


def _model(request: EvaluationRequest, store: RunStore) -> tuple[Config, RunStore, int, str]:
    is_hub_name = request.target.count("/") == 1 and not Path(request.target).parent.exists()
    if not request.target or (not Path(request.target).is_dir() and not is_hub_name):
        raise ConfigError(f"{request.target!r} is neither a run in {runs_directory()} nor a model directory")
    if request.step is not None:
        raise ConfigError(f"{request.target!r} is a model: only a run has steps")
    problems = request.suite or request.data or ("none" if request.profile == "base" else None)
    data = [f"data.train={json.dumps(problems)}", "data.curriculum=null", "data.weights=null"] if problems else []
    own = [f"model.path={json.dumps(request.target)}", *data]
    config = load(request.profile, [*own, *_overridden(request)], trains=False)
    return config, RunStore(store.directory / "none"), 0, model_digest(config.model.path)


def _folder(request: EvaluationRequest, data: str, description: dict[str, Any]) -> Path:
    """The folder, derived from the description: the same evaluation finds it again, a different one gets another."""
    is_run = description["step"] is not None
    above = runs_directory() / request.target / "evals" if is_run else runs_directory() / "evals"
    of = f"step{description['step']}" if is_run else Path(request.target).name
    how = "greedy" if request.greedy else f"n{request.n}"
    identity = hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:8]
    of_data = request.suite or Path(data).name.partition(".")[0]
    return above / f"{of}-{name_after(Path(of_data).name)}-{how}-{identity}"
