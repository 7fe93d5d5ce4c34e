"""Which settings contradict each other.

Contradictions are refused when a profile is loaded or overridden, not when a run's own settings are read back: a run
that began under other rules can still be looked at, exported and evaluated.
Not covered: bounds of one setting, which stand beside it; what only data or weights tell (ares/runs/run.py).
"""

import json
from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from algorithms.settings import ADAPTIVE_STEP_LIMIT
from ares.config.extensions import ENGINES, ESTIMATORS, KL_CONTROLLERS, POLICY_LOSSES, REWARD_DESIGNS
from ares.config.reward import is_function, part_name
from ares.config.rollout import RolloutConfig
from ares.config.run import Config

SUPERVISED = {
    "model.family": "causal", "algorithm.aepo.enabled": False, "algorithm.filter.enabled": False,
    "algorithm.kl.placement": "none", "algorithm.entropy_bonus.coef": 0.0, "algorithm.entropy_bonus.target": None,
    "rollout.temperature": 1.0, "rollout.max_staleness": 0, "rollout.second_turn.enabled": False,
    "data.curriculum": None, "data.order": "shuffled", "environment": None,
    "algorithm.policy.old_log_probs": "learner",
}  # fmt: skip
"""What learning from data needs: it samples nothing to train on, so that these settings would do nothing or not fit."""
OF_PAIRS = {
    "algorithm.kl.placement": "reward", "algorithm.kl.kind": "fixed", "algorithm.policy.aggregation": "token",
    "algorithm.policy.epochs": 1,
}  # fmt: skip
"""What DPO needs besides: β is the coefficient of the KL in the reward, and the gradient that of the policy before the
step."""
VLLM_TEMPERATURES = (0.01, 2.0)
"""Below the first vLLM samples at the first; above the second it refuses."""


def contradictions(config: Config, trains: bool = True) -> list[str]:
    """What does not go together, one sentence each, with what to set. Extensions must have been opened.

    trains: False for what only samples, as an evaluation.
    """
    topics = (
        *(_ranges, _sources, _watch, _kl, _learner, _advantages, _sampling),
        *(_second_turns, _families, _code, _functions, _episodes),
    )
    return [told for topic in (*topics, *([_training] if trains else [])) for told in topic(config)]


def _training(config: Config) -> Iterator[str]:
    yield from _steps_of_blocks("validation.few_steps", config.validation.few_steps, config.rollout)
    if config.learns_from != "samples":
        loss, pairs = config.algorithm.policy.loss, config.learns_from == "pairs"
        for name, value in (SUPERVISED | OF_PAIRS if pairs else SUPERVISED).items():
            if attrgetter(name)(config) != value:
                yield f"algorithm.policy.loss={loss} needs {name}={json.dumps(value)}"
        if config.algorithm.advantage.needs_values:
            yield f"algorithm.policy.loss={loss} has no use for a critic: algorithm.advantage.estimator=grpo"
        if pairs and not config.algorithm.kl.coef:
            yield f"algorithm.policy.loss={loss} learns nothing with algorithm.kl.coef=0, its β"
        if pairs and config.learner.global_batch_prompts != config.rollout.prompts:
            yield f"algorithm.policy.loss={loss} needs learner.global_batch_prompts={config.rollout.prompts}"
    elif config.rollout.top_p < 1 and config.model.family != "masked_diffusion":
        yield f"rollout.top_p={config.rollout.top_p:g} draws from another distribution than is trained: set it to 1"
    environment, estimator = config.environment, config.algorithm.advantage.estimator
    gives = environment is not None and environment.reward == "sum" and environment.discount == 1
    if ESTIMATORS.fact(estimator, "by_turn") and not (gives and "environment" in config.reward.kinds):
        yield (
            f"algorithm.advantage.estimator={estimator} takes rewards turn by turn: it needs reward.kind=environment, "
            "environment.reward=sum and environment.discount=1"
        )
    if ESTIMATORS.fact(estimator, "zero_or_one"):
        yield from _zero_or_one(config)


def _zero_or_one(config: Config) -> Iterator[str]:
    """For estimators that take no other rewards; what else gives some is noticed as it gives them (shape)."""
    needed: dict[str, Any] = {"algorithm.aepo.enabled": False, "algorithm.overlong.soft_punish_cache": 0}
    if config.reward.judges_programs and config.reward.code.design in REWARD_DESIGNS.builtin:
        needed["reward.code.design"] = "sparse"
    wrong = [f"{name}={json.dumps(value)}" for name, value in needed.items() if attrgetter(name)(config) != value]
    if config.algorithm.kl.placement == "reward":
        wrong.append("algorithm.kl.placement=loss")
    if {"judge", "model", "reasoning_gym"} & set(config.reward.kinds):
        wrong.append("reward.kind=math, code or a function of yours")
    if wrong:
        estimator = config.algorithm.advantage.estimator
        yield f"algorithm.advantage.estimator={estimator} is for rewards 0 and 1: set {', '.join(wrong)}"


def _ranges(config: Config) -> Iterator[str]:
    difficulty, choice, data = config.algorithm.difficulty, config.algorithm.filter, config.data
    if difficulty.alpha_min > difficulty.alpha_max:
        yield f"algorithm.difficulty: alpha_min ({difficulty.alpha_min}) is above alpha_max ({difficulty.alpha_max})"
    if choice.low >= choice.high:
        yield f"algorithm.filter: low ({choice.low}) must be below high ({choice.high}), or no group is ever kept"
    if data.min_pixels is not None and data.max_pixels is not None and data.min_pixels > data.max_pixels:
        yield f"data: min_pixels ({data.min_pixels}) is above max_pixels ({data.max_pixels})"
    cache, limit = config.algorithm.overlong.soft_punish_cache, config.rollout.max_response_length
    if cache > limit:
        yield f"algorithm.overlong.soft_punish_cache ({cache}) is longer than rollout.max_response_length ({limit})"


def _sources(config: Config) -> Iterator[str]:
    data, weights = config.data, config.data.weights or {}
    names = data.train.keys() if isinstance(data.train, dict) else set()
    if data.weights is not None and (odd := sorted(weights.keys() ^ names)):
        yield f"data.weights: one for each source of a mixture, by name; only one of the two has {', '.join(odd)}"
    else:
        schedules = [each for each in weights.values() if isinstance(each, dict)]
        for step in sorted({step for each in schedules for step in each}):  # if all are ever 0, then at one
            if not any(data.weights_at(step)):
                yield f"data.weights: nothing is drawn from at step {step}: all weights are 0"
    if data.curriculum is not None and (not isinstance(data.train, list) or len(data.train) < 2):
        yield "data.curriculum: its levels are the sources of data.train: name two or more, in a list"
    if data.order != "shuffled" and (data.curriculum is not None or data.weights is not None):
        yield f"data.order={data.order}: data.curriculum and data.weights order problems themselves"
    if data.grows and not isinstance(data.train, str):
        yield "data.grows: data.train is one folder then, without levels or a mixture"
    if data.grows and (data.limit is not None or data.order != "shuffled"):
        yield "data.grows: data.limit would leave new rows out, and data.order knows no place for them"


def _watch(config: Config) -> Iterator[str]:
    if config.rollout.max_staleness and any(wire.action == "rewind" for wire in config.watch.wires.values()):
        yield "watch: a run with rollout.max_staleness cannot be forked, so that nothing can rewind it: action=pause"
    if config.watch.margin == 0:  # not a bound of the field: earlier runs that have it must stay readable
        yield "watch.margin must be at least 1: the step after the last one within the limit measured its policy"


def _kl(config: Config) -> Iterator[str]:
    kl, in_loss = config.algorithm.kl, KL_CONTROLLERS.fact(config.algorithm.kl.kind, "in_loss")
    by_bucket = [name for name in ("coef", "target") if isinstance(getattr(kl, name), dict)]
    targets = kl.target.values() if isinstance(kl.target, dict) else [kl.target]
    if in_loss and kl.placement == "reward":
        yield f"algorithm.kl: kind={kl.kind} adapts β inside the loss: set placement=loss"
    if "coef" in by_bucket and (in_loss or kl.kind in ("fixed", "adaptive")):
        yield f"algorithm.kl: kind={kl.kind} has one coef; one per bucket needs kind=token_adaptive"
    if "target" in by_bucket and kl.kind == "adaptive":
        yield "algorithm.kl: kind=adaptive has one target; one per bucket needs kind=token_adaptive or bucket_beta"
    if kl.kind in ("adaptive", "bucket_beta") and not all(targets):
        yield f"algorithm.kl: kind={kl.kind} divides by the target: it must be above 0 (got {kl.target})"
    turns = config.rollout.second_turn
    rows = config.rollout.prompts * config.rollout.n * (1 + turns.children * turns.enabled)
    if kl.kind == "adaptive" and ADAPTIVE_STEP_LIMIT * rows >= kl.horizon:
        least = ADAPTIVE_STEP_LIMIT * rows
        yield f"algorithm.kl: kind=adaptive needs horizon above {least:g} (got {kl.horizon:g}), or β turns negative"
    if kl.penalty == "full" and kl.placement == "reward":
        yield "algorithm.kl: penalty=full needs both policies' whole distributions, as the loss has: set placement=loss"
    alone = config.algorithm.advantage.estimator == "none" and not config.algorithm.entropy_bonus.is_on
    if alone and (kl.placement != "loss" or (config.model.reference is None and kl.reference_sync is None)):
        yield "algorithm.advantage.estimator=none learns from KL alone: set kl.placement=loss and model.reference"
    if config.model.reference is not None and (kl.placement == "none" or kl.reference_sync is not None):
        yield "model.reference: nothing looks at it with kl.placement=none, and kl.reference_sync would replace it"
    if config.model.asks_reference != (config.model.reference_name is not None):
        yield "model.reference_name is the model's name on a server: set it, and model.reference=http…, or neither"
    if config.model.asks_reference and kl.penalty == "full":
        yield "algorithm.kl.penalty=full: model.reference=http… gives log-probs of sampled tokens only: set penalty=mse"
    if config.model.asks_reference and (config.rollout.temperature != 1 or config.model.family != "causal"):
        yield "model.reference=http… gives log-probs at temperature 1, of text: rollout.temperature=1, family=causal"
    if config.model.asks_reference and config.learns_from != "samples":
        yield "model.reference=http… is asked about the policy's samples; to learn from data takes one on this machine"
    if kl.penalty == "kl" and kl.placement == "loss":
        yield (
            "algorithm.kl: penalty=kl in the loss has an expected gradient of zero: set penalty=low_var_kl, mse or "
            "full, or placement=reward"
        )


def _learner(config: Config) -> Iterator[str]:
    learner, policy, lora, prompts = config.learner, config.algorithm.policy, config.model.lora, config.rollout.prompts
    if prompts % learner.global_batch_prompts:
        yield f"learner.global_batch_prompts ({learner.global_batch_prompts}) must divide rollout.prompts ({prompts})"
    if learner.sharded and learner.offload_optimizer:
        yield "learner: offload_optimizer is for whole weights: with sharded=true more ranks hold less each"
    if (learner.schedule == "constant") != (learner.decay_steps is None):
        yield f"learner: decay_steps is for schedule=linear and cosine, which need it (schedule={learner.schedule})"
    if lora is not None and learner.ema is not None:
        yield "learner.ema averages whole weights: it does not go with model.lora"
    if learner.compile and (config.model.family != "causal" or learner.sharded):
        yield "learner.compile is for causal models without learner.sharded"
    if learner.optimizer == "adamw_8bit" and (learner.sharded or learner.offload_optimizer):
        yield "learner.optimizer=adamw_8bit needs whole weights and keeps its moments: no sharded, no offload_optimizer"
    if learner.optimizer == "muon" and (learner.sharded or lora is not None):
        yield "learner.optimizer=muon needs whole matrices: neither learner.sharded nor model.lora"
    if lora is not None and (not lora.targets or {"lm_head", "embed_tokens"} & set(lora.targets)):
        yield "model.lora: targets are linear layers of the decoder, at least one; lm_head and embed_tokens are not"
    if policy.ratio == "sequence" and policy.loss in POLICY_LOSSES.builtin and policy.loss != "ppo":
        yield f"algorithm.policy: ratio=sequence (GSPO) is for loss=ppo; {policy.loss} has a ratio of its own"
    if policy.loss == "clip_cov" and (low := policy.settings["low"]) >= (high := policy.settings["high"]):
        yield f"algorithm.policy.settings: low ({low}) must be below high ({high}), or no token is ever drawn"
    cap, floor, kind = policy.importance_cap, policy.importance_floor, policy.importance_weights
    if kind != "truncated" and (cap is None or (1 / cap if floor is None else floor) >= cap):
        least = "1/importance_cap" if floor is None else "importance_floor"
        yield f"algorithm.policy: importance_weights={kind} keeps {least} to importance_cap, which must be higher"
    if policy.old_log_probs == "engine" and (
        config.algorithm.aepo.enabled
        or config.algorithm.kl.placement != "none"
        or config.algorithm.advantage.needs_values
        or config.model.family == "masked_diffusion"
        or config.rollout.max_staleness
    ):
        yield (
            "algorithm.policy.old_log_probs=engine leaves out the learner's pass before the update, which exact "
            "entropies (aepo.enabled), KL (kl.placement), values (gae), masked diffusion and rollout.max_staleness need"
        )
    bonus = config.algorithm.entropy_bonus
    if policy.old_log_probs == "engine" and bonus.is_on and (bonus.target is not None or bonus.share < 1):
        yield "algorithm.entropy_bonus: target and share need exact entropies: set policy.old_log_probs=learner"


def _advantages(config: Config) -> Iterator[str]:
    advantage, algorithm = config.algorithm.advantage, config.algorithm
    if advantage.estimator == "gdpo" and algorithm.kl.placement == "reward":
        yield "algorithm.advantage: gdpo compares each part of the reward, and KL is not one: set kl.placement=loss"
    if advantage.estimator == "gdpo" and (algorithm.aepo.enabled or config.rollout.second_turn.enabled):
        yield (
            "algorithm.advantage: gdpo divides each part of the reward by its own spread: set "
            "algorithm.aepo.enabled=false and rollout.second_turn.enabled=false"
        )
    if advantage.estimator == "pass_at_k" and (k := advantage.settings.get("k", 1)) > config.rollout.n:
        yield f"algorithm.advantage.settings.k ({k}) must be at most rollout.n ({config.rollout.n})"


def _sampling(config: Config) -> Iterator[str]:
    rollout, (least, most) = config.rollout, VLLM_TEMPERATURES
    if rollout.max_staleness and config.algorithm.policy.importance_cap is None:
        yield "rollout.max_staleness needs algorithm.policy.importance_cap: it corrects for it"
    if rollout.engine == "vllm":
        for section, asked in (("rollout", rollout.temperature), ("validation", config.validation.temperature)):
            if not least <= asked <= most:
                yield f"{section}.temperature={asked:g}: rollout.engine=vllm samples at {least:g} to {most:g}"
        if rollout.top_p < 1:
            yield "rollout: engine vllm needs top_p=1: its log-probs are those after top-p, the learner's before it"
        if rollout.vllm.tensor_parallel > 1 and rollout.placement == "colocate":
            yield "rollout: vllm.tensor_parallel above 1 needs placement=split: an engine shares one GPU at most"
    parts, staleness, length = rollout.parts, rollout.max_staleness, rollout.max_response_length
    if parts > staleness + 1:
        yield f"rollout.parts ({parts}) must be at most rollout.max_staleness ({staleness}) + 1: each has a policy"
    if length % parts:
        yield f"rollout.parts ({parts}) must divide rollout.max_response_length ({length})"
    continues = config.model.family == "causal" and ENGINES.fact(rollout.engine, "continues")
    if parts > 1 and (rollout.second_turn.enabled or not continues):
        yield (
            "rollout.parts above 1 is for causal models without rollout.second_turn, and engines that go on with "
            "a response: transformers, vllm, or one with continues = True"
        )


def _second_turns(config: Config) -> Iterator[str]:
    in_training = config.rollout.second_turn.enabled
    if config.has_second_turns and not config.reward.judges_programs:
        setting = "rollout.second_turn.enabled" if in_training else "validation.turns=2"
        yield f"{setting} tells a program its verdict: it needs reward.kind=code"
    if in_training and not config.algorithm.advantage.within_group:
        yield "rollout.second_turn.enabled needs an estimator that compares within a group, as grpo and rloo do"


def _denoising(config: Config) -> Iterator[str]:
    rollout, length, block = config.rollout, config.rollout.max_response_length, config.rollout.diffusion.block
    if block is not None and length % block:
        yield f"rollout.diffusion.block ({block}) must divide rollout.max_response_length ({length})"
    else:
        yield from _steps_of_blocks("rollout.diffusion.steps", rollout.diffusion.steps, rollout)


def _steps_of_blocks(name: str, steps: int | None, rollout: RolloutConfig) -> Iterator[str]:
    blocks = rollout.max_response_length // (rollout.diffusion.block or rollout.max_response_length)
    if steps is not None and blocks and steps % blocks:
        yield f"{name} ({steps}) must be a multiple of the {blocks} blocks, which get equal parts of them"


def _families(config: Config) -> Iterator[str]:
    family, algorithm = config.model.family, config.algorithm
    masked, exact_kl = family == "masked_diffusion", algorithm.kl.penalty == "full"
    if config.model.lora is not None and (masked or algorithm.kl.reference_sync is not None):
        yield "model.lora is for causal models, and their reference cannot move (kl.reference_sync)"
    if config.learner.sharded and (masked or exact_kl):
        yield "learner.sharded is for causal models, without the exact KL (algorithm.kl.penalty=full)"
    families = ENGINES.fact(config.rollout.engine, "families")
    if family not in families:
        told = f"rollout.engine={config.rollout.engine} samples from {' and '.join(families)} models"
        yield f"{told}, model.family is {family}; masked_diffusion needs engine diffusion"
    if family != "causal" and (config.environment is not None or config.has_second_turns):
        yield f"an environment and second turns need model.family=causal: {family} models have one response a prompt"
    if masked:
        bounds = algorithm.policy.importance_cap, config.rollout.max_mismatch, config.watch.mismatch_above
        if any(bound is not None for bound in bounds):
            yield (
                "a masked-diffusion model's log-probs under coupled masks are not those it was sampled with: "
                "set algorithm.policy.importance_cap=null, rollout.max_mismatch=null and watch.mismatch_above=null"
            )
        if algorithm.entropy_bonus.is_on:
            yield "algorithm.entropy_bonus needs a distribution of each sampled token, which masked diffusion lacks"
        if algorithm.advantage.needs_values or exact_kl:
            yield "masked-diffusion models have no critic (estimator=gae) and no exact KL (penalty=full)"
        yield from _denoising(config)
    elif config.validation.few_steps is not None:
        yield "validation.few_steps is for masked-diffusion models (model.family): others take a pass a token"
    if family == "vision_language" and (algorithm.advantage.needs_values or config.learner.sharded):
        # A rank whose rows show nothing makes no pass through the tower, which sharded weights would wait for.
        yield "vision-language models have no critic (estimator=gae) and no learner.sharded"


def _code(config: Config) -> Iterator[str]:
    code, limit = config.reward.code, config.rollout.max_response_length
    if (code.design == "verpo") != (code.verpo is not None):
        yield "reward.code: the section verpo (alpha, sigma, delta, gamma, beta) is for design=verpo, which needs it"
    if code.design in ("outcome_anchor", "pass_ratio") and code.efficiency > 0.2:
        yield f"reward.code: efficiency ({code.efficiency}) is at most 0.2 with design={code.design}"
    if code.verpo is not None and code.efficiency > code.verpo.gamma:
        yield f"reward.code: efficiency ({code.efficiency}) is at most verpo.gamma ({code.verpo.gamma})"
    if code.efficiency and code.efficiency_start >= limit:
        start = code.efficiency_start
        yield f"reward.code.efficiency_start ({start}) must be below rollout.max_response_length ({limit})"
    if code.efficiency and code.design not in REWARD_DESIGNS.builtin:
        yield f"reward.code: efficiency is for the built-in designs: {code.design} must charge for length itself"
    if wrong := [name for name in code.packages if not name.isidentifier()]:
        yield f"reward.code: packages are named as they are imported (numpy), not {', '.join(map(repr, wrong))}"


def _functions(config: Config) -> Iterator[str]:
    """Of several functions whose scores are added; without an error in these, of what counts as accuracy."""
    reward, judge = config.reward, config.reward.judge
    if "judge" in reward.kinds and not (judge.url.startswith(("http://", "https://")) and judge.model):
        yield "reward.kind=judge needs reward.judge.url (http://… or https://…) and reward.judge.model"
    if "model" in reward.kinds and not reward.model.path:
        yield "reward.kind=model needs reward.model.path: a classifier with one output"
    if reward.kind == "model" and reward.accuracy is None:
        yield "reward.kind=model has a scale of its own: set reward.accuracy to the score of a right response, or more"
    if judge.scale[0] >= judge.scale[1]:
        yield f"reward.judge.scale: {judge.scale[0]:g} must be below {judge.scale[1]:g}"
    alone = [name for name in reward.kinds if not (is_function(name) or (reward.by_row and name == "code"))]
    code, usual = reward.code, type(reward.code)()
    if reward.by_row and len(reward.kinds) < 2:
        yield "reward.by_row chooses among several kinds: reward.kind=[math, code]"
    if reward.by_row and (code.design not in ("sparse", usual.design) or code.efficiency or code.format_weight):
        yield "reward.by_row: programs are worth reward.code.accuracy, without design, efficiency and format_weight"
    if reward.by_row and isinstance(reward.accuracy, str) and reward.accuracy_function is None:
        yield "reward.by_row: each row's own score is its accuracy: set reward.accuracy=null, a bound or a function"
    if len(reward.kinds) > 1 and alone:
        yield f"reward.kind: {alone[0]} stands alone; math, environment and functions (path.py:function) are added"
    elif len(set(map(part_name, reward.kinds))) < len(reward.kinds):
        yield f"reward.kind: two of {', '.join(reward.kinds)} have the same name, and their parts need two"
    elif reward.accuracy is None and len(reward.kinds) > 1 and not reward.by_row and "environment" not in reward.kinds:
        names = ", ".join(map(part_name, reward.kinds))
        yield f"reward.accuracy: a sum need not be in [0, 1]: name one of {names}, a bound (0.5) or path.py:function"
    elif reward.accuracy_function is not None and not is_function(reward.accuracy_function):
        yield f"reward.accuracy: {reward.accuracy} is not a function"
    for field in ("weights", "timeout"):
        values = getattr(reward, field)
        if isinstance(values, tuple) and len(values) != len(reward.kinds):
            yield f"reward.{field}: {len(values)} values for the {len(reward.kinds)} of kind"
    if not reward.adds_functions and (reward.weights is not None or reward.accuracy is not None):
        yield f"reward: weights and accuracy are for functions of yours; {reward.kind} itself says what is right"


def _episodes(config: Config) -> Iterator[str]:
    environment, algorithm = config.environment, config.algorithm
    kinds = config.reward.kinds
    if environment is None:
        if "environment" in config.reward.kinds:
            yield "reward.kind=environment is what an environment gave: name one with environment.kind"
        return
    if (environment.kind == "tools") != bool(environment.tools):
        yield "environment.tools are for environment.kind=tools, which needs at least one"
    if environment.kind == "tools" and (environment.settings or "environment" in kinds):
        yield "environment.kind=tools has no settings and gives no rewards: grade the answer, as reward.kind=math does"
    if config.reward.judges_programs and config.reward.code.efficiency:
        yield "reward.code.efficiency is for single responses: an episode has no length limit of its own"
    if config.has_second_turns or config.rollout.parts > 1:
        yield "an environment stands in place of second turns, and rollout.parts above 1 is for single responses"
    if algorithm.overlong.soft_punish_cache:
        yield "algorithm.overlong.soft_punish_cache is for single responses: an episode has no length limit of its own"
    if algorithm.advantage.estimator == "reinforce_plus_plus":
        yield "algorithm.advantage.estimator=reinforce_plus_plus is for single responses: take grpo, rloo, remax or gae"
