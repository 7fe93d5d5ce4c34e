"""A causal LM as the learner sees it: hidden states of response tokens, then log-probs without a [tokens, vocab] array.

Rows are packed into one sequence without padding, a shared prompt once (ares/models/packing.py). Where a model does not
allow that, each row is a sequence of its own, padded on the right, for which causal attention needs no mask. Not
covered: models that change hidden states before the head or cap logits after it (refused at loading).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from algorithms.exact_kl import exact_kl
from algorithms.logprobs import logprobs_and_entropy
from algorithms.protocol import DataProto
from ares.config import DataConfig, ModelConfig
from ares.models.architecture import ModelError, logit_scale
from ares.models.packed_attention import can_regroup, narrow_windows, no_mask, regroup
from ares.models.packing import Layout, RowSizes, layout
from ares.models.policy_model import Pass, PolicyModel, TokenLogProbs
from ares.models.weights import read_policy

PROBE_WINDOW = 3
"""Sliding window, in tokens, in the trial of packing: less than its rows have."""

MIXED_UP = 1e-3
"""A token whose hidden state is off by this share of its length has seen another row. Float32's rounding alone makes up
to 1e-4 of it in a published model of 135M parameters; one token of another row makes a tenth or more."""


class PackedDecoder:
    """A transformers decoder through which rows pass in one sequence where that is exact (`packs`)."""

    decoder: Any
    compute_dtype: torch.dtype
    packs: bool

    def prepare_packing(self) -> list[str]:
        """Find out whether rows may be packed, for which the decoder is then ready; what a user should know of it."""
        why = "its attention is of a kind that ares does not know"
        self.packs = False
        if can_regroup(self.decoder):
            regroup(self.decoder)
            # The rows are short. Architectures that carry a state along the sequence, or ignore positions, mix rows up.
            with narrow_windows(self.decoder, PROBE_WINDOW):
                together, alone = self.together_and_alone(pack=True)
            apart = float(((together - alone).norm(dim=-1) / alone.norm(dim=-1)).max())
            self.packs = apart < MIXED_UP
            why = f"packed, a token's hidden state is off by {100 * apart:.2g} % (allowed: {100 * MIXED_UP:.2g} %)"
        said = f"rows are padded instead of packed, since {why}; passes take up to twice as long"
        return [] if self.packs else [f"{type(self.decoder).__name__}: {said}"]

    @torch.no_grad()
    def together_and_alone(self, pack: bool) -> tuple[Tensor, Tensor]:
        """Hidden states [N, H] of three short rows, two of them with one prompt, in one pass, packed or padded on the
        right, and of each in a pass of its own."""
        device, vocabulary = self.decoder.device, self.decoder.get_input_embeddings().num_embeddings
        ids = torch.tensor([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 6, 7, 8, 13], device=device) % vocabulary
        lengths = torch.tensor([5, 7, 4], device=device)
        sizes = RowSizes(lengths, torch.tensor([2, 3, 3], device=device), torch.tensor([0, 1, 1], device=device))
        laid = layout(sizes, pack)
        given = ids.new_zeros(laid.sequences * laid.width)
        given[laid.place] = ids
        together = self.decode(given.view(laid.sequences, laid.width), laid).flatten(0, 1)[laid.place]
        return together, torch.cat([self.alone(part[None])[0] for part in ids.split(lengths.tolist())])

    def alone(self, ids: Tensor) -> Tensor:
        """Hidden states [1, N, H] of one row ids [1, N] that is not packed."""
        return self.decode(ids, layout(RowSizes.alone(torch.tensor([ids.shape[1]])), pack=False).to(ids.device))

    def decode(self, ids: Tensor, laid: Layout, batch: Any = None) -> Tensor:
        """Hidden states [sequences, width, H] of laid-out rows, ids [sequences, width]; rows do not attend to each
        other."""
        where = {}
        if laid.blocks:
            where = {"position_ids": laid.position_ids(), "attention_mask": no_mask(ids.device), "layout": laid}
        return self.decoder(input_ids=ids, use_cache=False, **where).last_hidden_state

    def row_sizes(self, batch: DataProto | Pass) -> RowSizes:
        """Sizes of the rows of a batch or a pass: prompts [B, P], attention_mask [B, P+L]; consecutive rows may share a
        prompt."""
        tensors = batch.batch if isinstance(batch, DataProto) else batch
        prompts, attention_mask = tensors["prompts"], tensors["attention_mask"]
        shown = attention_mask[:, : prompts.shape[1]]
        other = torch.ones(len(prompts), dtype=torch.bool, device=prompts.device)
        other[1:] = ((prompts[1:] != prompts[:-1]) | (shown[1:] != shown[:-1])).any(1)
        return RowSizes(attention_mask.sum(1), shown.sum(1), other.cumsum(0))

    def response_hidden(self, batch: Pass) -> Tensor:
        """Hidden states that predict the response tokens, row after row: [N, H].

        batch: prompts [B, P] (left-padded), responses [B, L] (right-padded), attention_mask [B, P+L], response_mask
        [B, L].
        """
        sizes, mask = self.row_sizes(batch), batch["attention_mask"].bool()
        # On the CPU: it depends on many small sizes, and a GPU would be waited for each time.
        laid = layout(sizes.to("cpu"), self.packs).to(mask.device)
        ids = torch.zeros(laid.sequences * laid.width, dtype=torch.long, device=mask.device)
        ids[laid.place] = torch.cat([batch["prompts"], batch["responses"]], 1)[mask]
        # The response's tokens are the row's last (its mask may leave some of them out).
        response = batch["attention_mask"][:, batch["prompts"].shape[1] :].sum(1)
        # Index of the response token that each token predicts:
        offset = laid.position - (sizes.tokens - response)[laid.row] + 1
        predicts = (offset >= 0) & (offset < response[laid.row])
        wanted = batch["response_mask"].bool()[laid.row[predicts], offset[predicts]]
        chosen = laid.place[predicts][wanted]  # indexing by a mask waits for the GPU, so before the pass
        with torch.autocast(mask.device.type, torch.bfloat16, enabled=self.compute_dtype is torch.bfloat16):
            return self.decode(ids.view(laid.sequences, laid.width), laid, batch).flatten(0, 1)[chosen]


class LanguageModel(PackedDecoder, PolicyModel):
    """A transformers causal LM split into decoder and head."""

    def __init__(self, model: Any, config: ModelConfig, data: DataConfig | None = None) -> None:
        super().__init__(model, config, data)
        self.logit_scale = 1.0
        self.notes = self.prepare_packing()

    def check(self, path: str) -> None:
        """Raise ModelError where padding or a layer before or after the output head would make log-probs wrong."""
        if not self.packs:
            padded, alone = self.together_and_alone(pack=False)
            if not (padded - alone).norm() < 0.05 * alone.norm():
                raise ModelError(
                    f"{path}: padding behind a row changes its hidden states in {type(self.model).__name__}, so it "
                    "is no causal model"
                )
        self.logit_scale = check_head(self.model, self.head, self.alone, path, use_cache=False)

    def token_log_probs(self, batch: Pass, temperature: float) -> TokenLogProbs:
        """Log-prob of each response token and entropy of its distribution (nats), at a temperature."""
        targets = batch["responses"][batch["response_mask"].bool()]
        hidden = self.response_hidden(batch).to(self.compute_dtype)
        weight, bias = self.head.weight.to(self.compute_dtype), self.head_bias()
        return TokenLogProbs(*logprobs_and_entropy(hidden, weight, targets, bias, temperature / self.logit_scale))

    def exact_kl(self, reference: PolicyModel, batch: Pass, temperature: float) -> Tensor:
        """KL(own ‖ reference) over the whole vocabulary at each response token: [N] nats, gradient to own weights."""
        with torch.no_grad():
            theirs = reference.scored(batch)
        return exact_kl(*self.scored(batch), *theirs, temperature)

    def scored(self, batch: Pass) -> tuple[Tensor, Tensor]:
        """Hidden states of the response tokens and a weight whose product is their logits, bias included."""
        hidden, bias = self.response_hidden(batch), self.head_bias()
        if bias is None:
            return hidden * self.logit_scale, self.head.weight
        hidden = nn.functional.pad(hidden, (0, 1), value=1.0)
        return hidden * self.logit_scale, torch.cat([self.head.weight, bias[:, None]], 1)


class Critic(PackedDecoder, nn.Module):
    """A value model: the policy's initial decoder with a linear head that starts at zero."""

    def __init__(self, config: ModelConfig, device: torch.device) -> None:
        super().__init__()
        model = read_policy(config, device)
        self.decoder = model.get_decoder()
        self.head = nn.Linear(model.get_output_embeddings().weight.shape[1], 1, bias=False, device=device)
        nn.init.zeros_(self.head.weight)
        self.compute_dtype = getattr(torch, config.dtype)
        self.prepare_packing()

    def values(self, batch: Pass) -> Tensor:
        """Value before each response token: [N], row after row."""
        return self.head(self.response_hidden(batch).float())[:, 0]


LARGE_LOGIT = 1e3
"""Far above any model's cap on logits."""


@torch.no_grad()
def check_head(
    model: Any, head: Any, decode: Callable[[Tensor], Tensor], path: str, scaled: bool = True, **how: Any
) -> float:
    """The factor by which a model scales its head's logits.

    decode: ids [1, N] → the decoder's hidden states, which must be what the model gives its head. Raises ModelError
    where they are not, where logits are capped, and where no setting names the factor (not `scaled`: unless it is 1). A
    cap shows only in large logits, so the head's input is also tried scaled up.
    """
    ids = torch.arange(4, device=head.weight.device)[None]

    def passed(factor: float) -> tuple[Tensor, Tensor, Tensor]:
        """The head's input, scaled by a factor, its logits for that, and the model's."""
        given: list[Tensor] = []

        def multiply(module: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            given[:] = [inputs[0] * factor]
            return (given[0], *inputs[1:])

        hook = head.register_forward_pre_hook(multiply)
        try:
            expected = model(input_ids=ids, **how).logits.float()
        finally:
            hook.remove()
        return given[0], nn.functional.linear(given[0], head.weight, head.bias).float(), expected

    hidden, *small = passed(1.0)
    if not _alike(decode(ids), hidden):
        raise ModelError(
            f"{path}: {type(model).__name__} changes its decoder's hidden states before the output head, which ares "
            "does not reproduce"
        )
    _, *large = passed(LARGE_LOGIT / float(small[0].abs().max().clamp(min=1e-6)))
    scale = logit_scale(model.config, [small, large])
    if scale is None or (not scaled and scale != 1.0):
        raise ModelError(
            f"{path}: {type(model).__name__} transforms its logits after the output head, which ares does not reproduce"
        )
    return scale


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.allclose(one, other, atol=1e-3 * float(other.abs().max()), rtol=1e-3)
