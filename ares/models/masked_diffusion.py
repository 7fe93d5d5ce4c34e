"""A masked-diffusion LM as the learner sees it: log-probs of response tokens under masks that the batch has keys of.

Covered: loading (with remote code where allowed), masks keyed by run, step, iteration, slot and sample, estimates
without a [tokens, vocab] array. Not covered: masks of a key and their weights (algorithms/coupled_sampling.py), the
exact KL and a critic (the configuration refuses both), denoising (ares/engines/diffusion.py).
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from algorithms.coupled_sampling import MASK_ESTIMATES, random_mask
from algorithms.denoising import attention_both_ways
from algorithms.keyed_sampling import keyed_uniform
from algorithms.keys import derive_seed
from algorithms.logprobs import logprobs_and_entropy
from algorithms.protocol import DataProto
from ares.config import DataConfig, ModelConfig
from ares.models.architecture import ModelError
from ares.models.causal import check_head
from ares.models.packing import RowSizes
from ares.models.policy_model import Pass, PolicyModel, TokenLogProbs

PER_ITERATION = "iteration_"
"""Prefix of fields [B, I, …] with a value for each iteration of an update."""


class MaskedLanguageModel(PolicyModel):
    """A transformers masked-diffusion LM (as Dream: logit j − 1 predicts token j) split into decoder and head."""

    packs = False  # attention goes both ways, over padded rows

    def __init__(self, model: Any, config: ModelConfig, data: DataConfig | None = None) -> None:
        super().__init__(model, config, data)
        self.notes = []
        self.mask_id = mask_token_id(model.config, config.path)
        self.masked_passes, self.passes = MASK_ESTIMATES[config.mask_estimate]

    def views(self, batch: DataProto, seed: int, step: int, iterations: int) -> list[DataProto]:
        """The batch under each iteration's masks."""
        names = [(int(slot), int(sample)) for slot, sample in zip(*batch.require("uid", "sample"), strict=True)]
        seeds = mask_seeds(seed, step, names, iterations)
        return [batch.union(DataProto.from_dict({"mask_seeds": of_rows})) for of_rows in seeds.unbind(1)]

    def collected(self, views: list[DataProto], measured: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """mask_seeds [B, I]; log-probs under each iteration's masks [B, I, L], and their means over iterations [B, L]
        for the controllers; entropies, unless the engine recorded them."""
        stacked = {
            name: torch.stack([of_view[name] for of_view in measured], 1)
            for name in ("old_log_probs", "ref_log_probs")
            if name in measured[0]
        }
        fields = {"mask_seeds": torch.stack([view.tensor("mask_seeds") for view in views], 1)}
        fields |= {PER_ITERATION + name: values for name, values in stacked.items()}
        fields |= {name: values.mean(1) for name, values in stacked.items()}
        return fields if "entropies" in views[0].fields else fields | {"entropies": measured[0]["entropies"]}

    def for_iteration(self, batch: DataProto, iteration: int) -> DataProto:
        """The batch with the masks of one iteration and the log-probs under them."""
        fields = {name: tensor for name, tensor in batch.batch.items() if not name.startswith(PER_ITERATION)}
        fields["mask_seeds"] = batch.tensor("mask_seeds")[:, iteration]
        for name in ("old_log_probs", "ref_log_probs"):
            if PER_ITERATION + name in batch.fields:
                fields[name] = batch.tensor(PER_ITERATION + name)[:, iteration]
        return DataProto.from_dict(fields, batch.non_tensor_batch, batch.meta_info)

    def row_sizes(self, batch: DataProto) -> RowSizes:
        """Sizes of rows; a row counts once for each masked version of it."""
        prompts = batch.tensor("attention_mask")[:, : batch.tensor("prompts").shape[1]].sum(1)
        return RowSizes.alone(self.passes * (prompts + batch.tensor("canvas").shape[1]))

    def token_log_probs(self, batch: Pass, temperature: float) -> TokenLogProbs:
        """Estimated log-prob of each response token, and its entropy (nats) in the first pass that masks it (by default
        the pass that masks everything); both 0 for a token that no pass masks.

        batch: prompts [B, P], canvas [B, K], attention_mask, response_mask, mask_seeds [B].
        """
        places = batch["canvas"].shape[1]
        masks, weights, prompt_ratio = self.masked_passes(partial(random_mask, batch["mask_seeds"], places))
        response = torch.zeros_like(masks[0])
        response[:, : batch["response_mask"].shape[1]] = batch["response_mask"].bool()
        hidden = self._hidden(batch, masks, prompt_ratio)[:, response].to(self.compute_dtype)  # [V, N, H]
        weights = weights[:, response]
        # Ordered by pass: the first that counts for a token, then the second, ….
        counts = weights > 0
        rank = counts.cumsum(0) - 1
        version, token = counts.nonzero(as_tuple=True)
        order = (rank[version, token] * counts.shape[1] + token).argsort()
        version, token = version[order], token[order]
        weight = self.head.weight.to(self.compute_dtype)
        targets = batch["canvas"][response][token]
        log_probs, entropies = logprobs_and_entropy(
            hidden[version, token], weight, targets, self.head_bias(), temperature
        )
        empty = log_probs.new_zeros(counts.shape)
        estimate = (empty.index_put((version, token), log_probs) * weights.to(log_probs.dtype)).sum(0)
        first = rank[version, token] == 0
        return TokenLogProbs(estimate, empty[0].index_put((token[first],), entropies[first]))

    def _hidden(self, batch: Pass, masked: Tensor, prompt_ratio: float) -> Tensor:
        """Hidden states [V, B, K, H] that predict the canvas, from V masked versions [V, B, K] of it; `prompt_ratio` of
        the prompts' tokens are masked."""
        width = batch["prompts"].shape[1]
        prompts = batch["prompts"].masked_fill(prompt_mask(batch["mask_seeds"], width, prompt_ratio), self.mask_id)
        seen = batch["attention_mask"][:, :width].bool()
        used = int(seen.any(0).sum())  # columns that are padding in every row are left off
        prompts, seen = prompts[:, width - used :], seen[:, width - used :]
        canvas = batch["canvas"]
        versions, rows, places = masked.shape
        ids = torch.cat([prompts.expand(versions, -1, -1), canvas.masked_fill(masked, self.mask_id)], 2).flatten(0, 1)
        seen = torch.cat([seen, seen.new_ones(rows, places)], 1).repeat(versions, 1)
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=self.compute_dtype is torch.bfloat16):
            hidden = self.decoder(
                input_ids=ids,
                attention_mask=None if bool(seen.all()) else attention_both_ways(seen),
                position_ids=(seen.long().cumsum(1) - 1).clamp(min=0),
            ).last_hidden_state
        return hidden[:, -places - 1 : -1].reshape(versions, rows, places, -1)

    def check(self, path: str) -> None:
        """Raise ModelError where logits are transformed or attention is causal."""
        check_head(self.model, self.head, lambda ids: self.decoder(input_ids=ids).last_hidden_state, path, scaled=False)
        ids = torch.arange(4, device=self.head.weight.device)[None]
        other = ids.clone()
        other[0, -1] = 5
        with torch.no_grad():
            expected, changed = self.model(input_ids=ids).logits, self.model(input_ids=other).logits
        if torch.equal(expected[0, 0], changed[0, 0]):
            raise ModelError(f"{path}: {type(self.model).__name__} looks only backwards, as a causal model")


def mask_token_id(settings: Any, path: str) -> int:
    """The mask token. Raises ModelError."""
    token = getattr(settings, "mask_token_id", None)
    if token is None:
        raise ModelError(f"{path}: config.json names no mask_token_id: this is no masked-diffusion model")
    return int(token)


def mask_seeds(seed: int, step: int, names: Sequence[tuple[int, int]], iterations: int) -> Tensor:
    """Key of the masks of each row, named by slot and sample, in each iteration of a step: [rows, iterations] int64."""
    keys = [[derive_seed(seed, step, "mask", number, *name) for number in range(iterations)] for name in names]
    return torch.tensor(keys, dtype=torch.long)


def prompt_mask(seeds: Tensor, width: int, ratio: float) -> Tensor:
    """Which tokens of each row's prompt are masked, each with probability `ratio`: bool [B, width].

    Positions count from the end, from −1, so that padding on the left changes nothing; a canvas's draws start at 0.
    """
    return keyed_uniform(seeds[:, None], torch.arange(-width, 0, device=seeds.device)) < ratio
