"""The learner: policy, reference and critic on one device; log-probs before an update, and the update itself.

Covered: padding-free log-probs and entropies, PPO epochs whose update does not depend on the micro-batches, KL in the
loss, GAE's critic, skipping non-finite updates, checkpoints; several ranks that share each global batch, with whole or
sharded weights (ares/models/sharding.py). Plain torch and transformers: no Ray, no Prefect.
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, Field
from torch import Tensor

from algorithms.groups import SECOND_TURN_SLOT, group_numbers
from algorithms.kl import BatchKL
from algorithms.kl_controllers import KLController
from algorithms.losses import loss_normalizer
from algorithms.protocol import DataProto
from ares.config import KL_CONTROLLERS, Config, ConfigError
from ares.learner import checkpoints
from ares.learner.objective import Means, MicroBatch, Objective
from ares.learner.optimizer import OPTIMIZERS, adamw, average_in, learning_rate, move_moments, take_step
from ares.learner.ranks import Ranks
from ares.models import (
    Critic,
    Pass,
    PolicyModel,
    add_adapters,
    load_model,
    merged_weights,
    micro_batches,
    persistent_buffers,
    return_free_memory,
    shard,
    warn_of_memory,
    without_adapters,
)


class UpdateResult(BaseModel):
    """Metrics of an update, and the state of the β controller if there is one."""

    metrics: dict[str, float]
    beta: dict[str, Any] | None = None
    steps: list[dict[str, float]] = Field([], exclude=True)
    """The metrics of each optimiser step; none of one that was left out."""


class Learner:
    """One rank's policy with its optimiser; `version` counts the training steps that made its weights."""

    def __init__(self, config: Config, ranks: Ranks = Ranks()) -> None:  # noqa: B008 (immutable)
        torch.set_num_threads(config.learner.threads)
        self.config = config
        self.ranks = ranks
        self.device = torch.device(_device(config.learner.device))
        self.sharded = config.learner.sharded and ranks.count > 1
        # Sharding moves weights to the ranks' devices, part by part.
        device = torch.device("cpu") if self.sharded else self.device
        self.policy: PolicyModel = load_model(config, device)
        kl = config.algorithm.kl
        self.reference: PolicyModel | None = None
        of_reference = config.model_copy(update={"model": config.model.of_reference})
        if config.model.lora is not None:
            add_adapters(self.policy.model, config.model)
        if kl.placement != "none" and config.model.lora is not None and config.model.reference is None:
            self.reference = without_adapters(self.policy)
        elif kl.placement != "none" and not config.model.asks_reference:
            self.reference = load_model(of_reference, device).frozen()
        self.critic = Critic(config.model, device) if config.algorithm.advantage.needs_values else None
        models = filter(None, (self.policy.model, self.critic))
        trained = sum(p.numel() for model in models for p in model.parameters() if p.requires_grad)
        if not self.sharded and (told := warn_of_memory(self.policy, config, trained, self.device)):
            self.policy.notes.append(told)
        self.objective = Objective(config, self.policy, self.reference, self.critic)
        if self.sharded:
            self._shard()
        if config.learner.compile:
            _compile(self.policy.model.get_decoder(), self.device)
        make = OPTIMIZERS[config.learner.optimizer]
        self.optimizer = make(self.policy.model, config.learner.lr, config.learner)
        self.optimizers = {checkpoints.OPTIMIZER: (self.optimizer, self.policy.model, config.learner.lr)}
        """Of policy and critic, by the name of their files, each with its model and peak learning rate."""
        if self.critic is not None:
            critics = adamw(self.critic, config.learner.critic_lr, config.learner)
            self.optimizers[checkpoints.CRITIC_OPTIMIZER] = critics, self.critic, config.learner.critic_lr
        weights = checkpoints.trained(self.policy.model) if config.learner.ema is not None else {}
        self.average = {name: weight.detach().clone() for name, weight in weights.items()}
        """The moving average of the weights, if one is kept."""
        self.version = 0
        self.optimizer_steps = 0
        self._release_memory()

    def _shard(self) -> None:
        shard(self.policy, self.policy.model, "token_log_probs", self.device)
        if self.reference is not None and self.reference.model is not self.policy.model:  # as with adapters
            shard(self.reference, self.reference.model, "token_log_probs", self.device)
        if self.critic is not None:
            shard(self.critic, self.critic.decoder, "values", self.device)

    # ---- before the update -----------------------------------------------------------------------------------------

    @torch.no_grad()
    def experience(self, batch: DataProto) -> DataProto:
        """Old and reference log-probs, entropies and values, which the update needs from the policy before it.

        batch: prompts [B, P], responses [B, L], attention_mask [B, P+L], response_mask [B, L]. Returns only new fields.
        Every rank is given the whole batch, computes its share and returns the fields of all rows.
        """
        views = self.policy.views(batch, self.config.train.seed, self.version, self.config.algorithm.policy.epochs)
        measured = DataProto.from_dict(self.policy.collected(views, [self._measured(view) for view in views]))
        self._release_memory()
        return measured

    def _measured(self, batch: DataProto) -> dict[str, Tensor]:
        """Outputs of policy, reference and critic for a batch: [B, L] by name, zero beyond the responses."""
        exact_kl = self.config.algorithm.kl.penalty == "full" and self.reference is not None
        names = ["old_log_probs", "entropies"]
        names += ["ref_log_probs"] if self.reference else []
        names += ["values"] if self.critic else []
        names += ["exact_kl"] if exact_kl else []
        temperature = self.config.rollout.temperature

        def measure(part: Pass) -> dict[str, Tensor]:
            own = self.policy.token_log_probs(part, temperature)
            values = {"old_log_probs": own.log_probs, "entropies": own.entropies}
            if self.reference is not None:
                values["ref_log_probs"] = self.reference.token_log_probs(part, temperature).log_probs
                if exact_kl:
                    values["exact_kl"] = self.policy.exact_kl(self.reference, part, temperature)
            if self.critic is not None:
                values["values"] = self.critic.values(part)
            return values

        return self._of_every_row(batch, names, measure)

    def _of_every_row(
        self, batch: DataProto, names: list[str], measure: Callable[[Pass], dict[str, Tensor]]
    ) -> dict[str, Tensor]:
        """What is measured of the response tokens of each pass [N], as [B, L] with zeros elsewhere, by name."""
        shape = batch.tensor("response_mask").shape
        fields = {name: torch.zeros(shape) for name in names}
        for rows, idle in self._micro_batches(batch):
            part = self.policy.on_device(batch[rows])
            mask = part["response_mask"].bool().cpu()
            for name, of_tokens in measure(part).items():
                if not idle:
                    fields[name][rows] = torch.zeros(mask.shape).masked_scatter(mask, of_tokens.float().cpu())
        for name in names:
            self.ranks.sum(fields[name])  # a row is zero on every rank but one
        return fields

    @torch.no_grad()
    def log_probs(self, batch: DataProto, temperature: float) -> Tensor:
        """Log-prob of each response token by the policy as it is, [B, L]. Of masked diffusion under the batch's own
        masks: mask_seeds [B]."""
        own = self._of_every_row(
            batch, ["log_probs"], lambda part: {"log_probs": self.policy.token_log_probs(part, temperature).log_probs}
        )
        self._release_memory()
        return own["log_probs"]

    def _micro_batches(self, batch: DataProto) -> list[tuple[Tensor, bool]]:
        """This rank's micro-batches of a batch, each with whether it is idle.

        Sharded ranks must make equally many passes; the spare ones are idle passes of one row.
        """
        sizes = self.policy.row_sizes(batch)
        budget = self.config.learner.micro_batch_tokens
        own, *others = (
            [rows[part] for part in micro_batches(sizes[rows], budget, self.policy.packs)] if len(rows) else []
            for rows in self.ranks.shares(sizes, of_others=self.sharded)
        )
        idle = max(len(parts) for parts in [own, *others]) - len(own)
        return [(rows, False) for rows in own] + [(torch.tensor([0]), True)] * idle

    # ---- the update ------------------------------------------------------------------------------------------------

    def update(self, batch: DataProto, beta: dict[str, Any] | None = None) -> UpdateResult:
        """PPO epochs over a batch: version k becomes k + 1. `beta` is the state of the β controller before it.

        An optimiser step whose loss or gradient is not finite is left out and counted (actor/skipped_updates).
        """
        *_, result = self.updates(batch, beta)
        assert isinstance(result, UpdateResult)
        return result

    def updates(self, batch: DataProto, beta: dict[str, Any] | None = None) -> Iterator[int | UpdateResult]:
        """`update` with progress: the number of each finished optimiser step, then the result."""
        controller = None if beta is None else KL_CONTROLLERS.make(self.config.algorithm.kl)
        if controller is not None:
            controller.load_state_dict(beta)
        means = Means()
        steps: list[dict[str, float]] = []
        skipped = done = 0
        # Second turns make a batch longer than prompts times n; they are in the same optimiser step as their prompt.
        updates = self.config.rollout.prompts // self.config.learner.global_batch_prompts
        slots = batch.non_tensor_batch["uid"].astype(np.int64) % SECOND_TURN_SLOT
        prompts = torch.from_numpy(group_numbers(slots)[0])
        shares = prompts.unique().tensor_split(updates)
        parts = [torch.isin(prompts, share).nonzero()[:, 0] for share in shares if len(share)]
        settings = self.config.algorithm.policy
        self._move_moments(self.device)
        for iteration in range(settings.epochs):
            seen = self.policy.for_iteration(batch, iteration)
            for rows in parts:
                compares = settings.old_log_probs == "engine" and done == 0
                measured = self._optimizer_step(seen[rows], controller, compares)
                if measured is None:
                    skipped += 1
                else:
                    means.merge(measured)
                steps.append(measured.means() if measured else {})
                done += 1
                yield done
        self._move_moments(torch.device("cpu"))
        self.version += 1
        self._sync_reference()
        self._release_memory()
        metrics = means.means() | {
            "actor/lr": learning_rate(self.config.learner, self.config.learner.lr, max(self.optimizer_steps, 1)),
            "actor/skipped_updates": float(skipped),
            "actor/optimizer_steps": float(self.optimizer_steps),
        }
        if controller is None:
            yield UpdateResult(metrics=metrics, steps=steps)
        else:
            yield UpdateResult(metrics=metrics | controller.metrics(), beta=controller.state_dict(), steps=steps)

    def _move_moments(self, device: torch.device) -> None:
        if self.config.learner.offload_optimizer:
            for optimizer, _, _ in self.optimizers.values():
                move_moments(optimizer, device)
            self._wait_for_device()

    def _release_memory(self) -> None:
        """Give back what is not needed until the next pass, since an engine may need it: gradients, and what the
        allocator keeps of freed memory."""
        if self.device.type != "cpu" and self.config.rollout.placement != "colocate":
            return
        held = any(parameter.grad is not None for parameter in self.policy.model.parameters())
        self._drop_gradients()
        if self.device.type != "cpu":
            torch.get_device_module(self.device).empty_cache()
        elif held:  # after an update; without gradients a pass takes little
            return_free_memory()

    def _drop_gradients(self) -> None:
        for optimizer, _, _ in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)

    def _optimizer_step(self, batch: DataProto, controller: KLController | None, compares: bool) -> Means | None:
        """One step on one global batch; None if it has no tokens to learn from or its loss or gradient is not finite.

        `compares`: measure the mismatch: the old log-probs are the engine's, and the weights are those it sampled from.
        """
        constant = self.config.rollout.max_response_length
        aggregation = self.config.algorithm.policy.aggregation
        # Counted over all rows: those that are masked out keep their share of a constant normaliser.
        normalizer = loss_normalizer(batch.tensor("response_mask"), aggregation, constant).to(self.device)
        batch = batch[batch.tensor("response_mask").bool().any(1)]
        if not len(batch):
            return None
        self.objective.choose(batch, self.version, self.optimizer_steps)
        averaging = {"mode": aggregation, "normalizer": normalizer, "constant_length": constant}
        self._drop_gradients()
        means, losses, row_kls = self._accumulate(batch, controller, averaging, compares)
        norms = {"actor/grad_norm": self._clip(self.policy.model)}
        if self.critic:
            norms["critic/grad_norm"] = self._clip(self.critic)
        if not all(math.isfinite(value) for value in (losses | norms).values()):
            return None
        means.add(losses | norms, 1.0)
        self.optimizer_steps += 1
        own = self.config.learner
        for optimizer, _, peak in self.optimizers.values():
            take_step(optimizer, learning_rate(own, peak, self.optimizer_steps))
        if own.ema is not None:
            average_in(self.average, checkpoints.trained(self.policy.model), own.ema)
        if controller:
            (difficulty,) = batch.require("difficulty")
            controller.update(BatchKL.of(row_kls, difficulty))
        return means

    def _accumulate(
        self, batch: DataProto, controller: KLController | None, averaging: dict[str, Any], compares: bool
    ) -> tuple[Means, dict[str, float], Tensor]:
        """Accumulate the gradients of a global batch; returns metrics, losses and each row's KL [B], over all ranks."""
        row_kls = torch.zeros(len(batch))
        means = Means()
        losses: dict[str, float] = {}
        for rows, idle in self._micro_batches(batch):
            part = MicroBatch(batch[rows], self.policy)
            if idle:  # a pass whose gradients are zero
                passed = self.policy.token_log_probs(part.tensors, self.config.rollout.temperature).log_probs.sum()
                if self.critic is not None:
                    passed = passed + self.critic.values(part.tensors).sum()
                (0.0 * passed).backward()
                continue
            terms = self.objective.terms(part, controller, averaging, means, compares)
            sum(terms.values(), torch.zeros((), device=self.device)).backward()
            for name, value in terms.items():
                losses[name] = losses.get(name, 0.0) + float(value.detach())
            row_kls[rows] = part.row_kl.float().cpu()
        self.ranks.sum(row_kls)
        whole, total = Means(), dict[str, float]()
        for of_rank, shares in self.ranks.gather((means, losses)):
            whole.merge(of_rank)
            for name, share in shares.items():
                total[name] = total.get(name, 0.0) + share
        return whole, total, row_kls

    def _clip(self, model: torch.nn.Module) -> float:
        """Sum gradients over ranks and clip their norm; returns the norm before clipping."""
        if not self.sharded:  # else FSDP has summed them
            self.ranks.sum_gradients(model)
        return float(
            checkpoints.whole(torch.nn.utils.clip_grad_norm_(model.parameters(), self.config.learner.max_grad_norm))
        )

    def _sync_reference(self) -> None:
        """Every algorithm.kl.reference_sync steps the reference becomes a copy of the policy."""
        every = self.config.algorithm.kl.reference_sync
        if every is not None and self.reference is not None and self.version % every == 0:
            with torch.no_grad():
                own = dict(self.policy.model.named_parameters())
                for name, parameter in self.reference.model.named_parameters():
                    parameter.copy_(own[name])

    # ---- weights ---------------------------------------------------------------------------------------------------

    def _policy_weights(self, averaged: bool = False) -> Iterable[tuple[str, Tensor]]:
        if self.config.model.lora is not None:
            return merged_weights(self.policy.model)
        weights = dict(self.policy.model.named_parameters())
        return (weights | self.average if averaged else weights).items()

    def weights(self, averaged: bool = False) -> dict[str, Tensor]:
        """The policy's weights on the CPU, by name, adapters merged; or their average, where learner.ema has one kept.
        Sharded, every rank must call, and the first one gets them.

        Persistent buffers are included: they are not trained, but engines start without any weights.
        """
        copies: dict[str, Tensor] = {}
        if self.ranks.rank and not self.sharded:
            return copies
        # One at a time: merged, they would take the memory of another model.
        for name, tensor in chain(self._policy_weights(averaged), persistent_buffers(self.policy.model)):
            copy = checkpoints.whole(tensor, wait=False)
            if not self.ranks.rank:
                copies[name] = copy
        self._wait_for_device()
        self._release_memory()
        return copies

    def _wait_for_device(self) -> None:
        if self.device.type != "cpu":
            torch.get_device_module(self.device).synchronize()

    def save(self, folder: Path | None) -> None:
        """Write weights, optimiser and counters into a folder. Raises ValueError if a weight is not finite, OSError.

        Only the first rank has a folder and writes; sharded, every rank must call, since the first gathers all parts.
        """
        if self.ranks.rank and not self.sharded:
            return
        weights = self._own_weights() | {checkpoints.POLICY: dict(self._policy_weights())}
        moments = {
            name: checkpoints.optimizer_tensors(optimizer, model)
            for name, (optimizer, model, _) in self.optimizers.items()
        }
        every = weights | moments
        objection: Exception | None = None
        try:
            checkpoints.check_finite(weights)
            if folder is not None:
                checkpoints.check_room(folder, (tensor for named in every.values() for tensor in named.values()))
        except (ValueError, OSError) as error:
            objection = error
        for each in self.ranks.gather(objection) if self.sharded else [objection]:
            if each is not None:  # on every rank: none waits for one that has given up
                raise each
        for name, named in every.items():
            checkpoints.write(folder, name, named)
        if folder is not None:
            counters = {"version": self.version, "optimizer_steps": self.optimizer_steps}
            (folder / checkpoints.COUNTERS).write_text(json.dumps(counters))
        self._release_memory()

    def _own_weights(self) -> dict[str, dict[str, Tensor]]:
        """What a checkpoint is loaded into, by the name of the file that holds it; of a policy with adapters only them.

        Without adapters all weights are loaded: the run that this one was forked from may have trained more of them.
        """
        kept = {checkpoints.POLICY: dict(self.policy.model.named_parameters())}
        if self.config.model.lora is not None:
            kept = {checkpoints.ADAPTERS: checkpoints.trained(self.policy.model)}
        if self.critic is not None:
            kept[checkpoints.CRITIC] = dict(self.critic.named_parameters())
        if self.average:
            kept[checkpoints.AVERAGE] = self.average
        if self.config.algorithm.kl.reference_sync is not None and self.reference is not None:
            kept[checkpoints.REFERENCE] = dict(self.reference.model.named_parameters())
        return kept

    def load(self, folder: Path) -> None:
        """Load a checkpoint, written by any number of ranks."""
        for name, tensors in self._own_weights().items():
            checkpoints.read_into(folder, name, tensors)
        for name, (optimizer, model, _) in self.optimizers.items():
            checkpoints.load_optimizer(folder, name, optimizer, model)
        counters = json.loads((folder / checkpoints.COUNTERS).read_text())
        self.version, self.optimizer_steps = counters["version"], counters["optimizer_steps"]
        self._move_moments(torch.device("cpu"))
        self._release_memory()


def _compile(decoder: torch.nn.Module, device: torch.device) -> None:
    """Have a model's decoder compiled by its first passes. Raises ConfigError where torch cannot."""
    try:  # a compiler may be absent, or too old
        torch.compile(lambda numbers: numbers * 2 + 1)(torch.zeros(8, device=device))
    except Exception as error:
        cause = next((line for line in str(error).splitlines() if line.strip()), "")
        raise ConfigError(f"learner.compile: torch.compile fails here: {type(error).__name__}: {cause:.200}") from error
    decoder.compile(dynamic=True)  # lengths differ from pass to pass


def _device(wanted: str) -> str:
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return wanted
