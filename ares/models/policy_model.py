"""Policy and reference models, whatever the family: their interfaces, and what is the same for all.

Not covered: the families (the modules beside this one), their table (ares/models/__init__.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from algorithms.protocol import DataProto
from ares.config import DataConfig, ModelConfig
from ares.models.packing import RowSizes
from ares.models.weights import read_policy

Pass = Any
"""A micro-batch as a model takes it: tensors by name and, for vision-language models, pictures."""


class TokenLogProbs(NamedTuple):
    """Log-prob and entropy of every response token, row after row: [N] each."""

    log_probs: Tensor
    entropies: Tensor


class PolicyModel(nn.Module, ABC):
    """A model that is trained, or `frozen` to be a reference: float32 weights, computing in `compute_dtype`."""

    model: Any
    """The transformers model."""
    packs: bool
    """Whether rows may be packed into one sequence."""
    notes: list[str]
    """What a user should know of how the model is computed, said at the start."""

    def __init__(self, model: Any, config: ModelConfig, data: DataConfig | None = None) -> None:
        """data: how pictures are read."""
        super().__init__()
        self.model, self.compute_dtype = model, getattr(torch, config.dtype)
        self.decoder, self.head = model.get_decoder(), model.get_output_embeddings()

    @classmethod
    def load(cls, config: ModelConfig, device: torch.device, data: DataConfig | None = None) -> Self:
        """Read the weights as float32, to be trained; the model computes in config.dtype. Raises ModelError."""
        loaded = cls(read_policy(config, device), config, data)
        loaded.check(config.path)
        return loaded

    @abstractmethod
    def check(self, path: str) -> None:
        """Raise ModelError where log-probs would be silently wrong."""

    def frozen(self) -> Self:
        """Turned into a reference: never trained, its matrices in the type it computes in.

        Vectors and embeddings stay float32, as the policy's do: else a policy that has not moved yet would be .02 nats
        a token from its own reference. So do buffers: rotary frequencies rounded to bfloat16 are off by a radian at
        position 1,000.
        """
        self.model.eval().requires_grad_(False)
        kept = {id(part.weight) for part in self.model.modules() if isinstance(part, nn.Embedding)}
        for parameter in self.model.parameters():
            if parameter.ndim > 1 and id(parameter) not in kept:
                parameter.data = parameter.data.to(self.compute_dtype)
        return self

    def head_bias(self) -> Tensor | None:
        """The head's bias [V], in the type it computes in."""
        return None if self.head.bias is None else self.head.bias.to(self.compute_dtype)

    @abstractmethod
    def row_sizes(self, batch: DataProto) -> RowSizes:
        """Sizes of rows in a pass."""

    def on_device(self, rows: DataProto) -> Pass:
        """Rows as `token_log_probs` takes them: tensors by name."""
        return rows.batch.to(self.head.weight.device)

    @abstractmethod
    def token_log_probs(self, batch: Pass, temperature: float) -> TokenLogProbs:
        """Log-prob of each response token and entropy of its distribution (nats), at a temperature."""

    def scored(self, batch: Pass) -> tuple[Tensor, Tensor]:
        """Hidden states [N, H] of the response tokens and a weight [V, H] whose product is their logits. Families
        without one distribution a token have none: the configuration refuses it."""
        raise NotImplementedError

    def exact_kl(self, reference: "PolicyModel", batch: Pass, temperature: float) -> Tensor:
        """KL(own ‖ reference) over the whole vocabulary at each response token: [N] nats, gradient to own weights."""
        raise NotImplementedError

    def views(self, batch: DataProto, seed: int, step: int, iterations: int) -> list[DataProto]:
        """The batch as each iteration of an update sees it; one view if all see the same.

        seed, step: keys of random draws.
        """
        return [batch]

    def collected(self, views: list[DataProto], measured: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Measurements of each view ([B, L] by name) as fields of the batch."""
        return measured[0]

    def for_iteration(self, batch: DataProto, iteration: int) -> DataProto:
        """The batch, with those fields, as one iteration of the update sees it."""
        return batch
