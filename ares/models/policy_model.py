"""The interfaces of policy and reference models, whatever the family: causal, vision-language, masked-diffusion.

Not covered: implementations (the modules beside this one), their table (ares/models/kinds.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from torch import Tensor, nn

from algorithms.protocol import DataProto
from ares.config import DataConfig, ModelConfig
from ares.models.packing import RowSizes


class Pass(Protocol):
    """A micro-batch as a model takes it: tensors by name and, for vision-language models, pictures."""

    def __getitem__(self, name: str, /) -> Any: ...

    def keys(self) -> Any: ...


@dataclass
class TokenLogProbs:
    """Log-prob and entropy of every response token, row after row: [N] each."""

    log_probs: Tensor
    entropies: Tensor


class ReferenceModel(Protocol):
    """What a policy is compared with: never trained."""

    model: Any
    """The transformers model."""

    @property
    def whole(self) -> nn.Module:
        """The module whose weights are spread over ranks (learner.sharded)."""

    def token_log_probs(self, batch: Pass, temperature: float) -> TokenLogProbs:
        """Log-prob of each response token and entropy of its distribution (nats), at a temperature."""

    def scored(self, batch: Pass) -> tuple[Tensor, Tensor]:
        """Hidden states [N, H] of the response tokens and a weight [V, H] whose product is their logits."""


class PolicyModel(ReferenceModel, Protocol):
    """A model that is trained: float32 weights, computing in model.dtype."""

    packs: bool
    """Whether rows may be packed into one sequence."""
    notes: list[str]
    """What a user should know of how the model is computed, said at the start."""

    @classmethod
    def load(cls, config: ModelConfig, device: torch.device, data: DataConfig | None = None) -> Self:
        """Load a model; `data` says how pictures are read. Raises ModelError."""

    def frozen(self) -> Self:
        """Turned into a reference, its parameters in the type it computes in."""

    def row_sizes(self, batch: DataProto) -> RowSizes:
        """Sizes of rows in a pass."""

    def on_device(self, rows: DataProto) -> Pass:
        """Rows as `token_log_probs` takes them."""

    def exact_kl(self, reference: ReferenceModel, batch: Pass, temperature: float) -> Tensor:
        """KL(own ‖ reference) over the whole vocabulary at each response token: [N] nats, gradient to own weights."""

    def views(self, batch: DataProto, seed: int, step: int, iterations: int) -> list[DataProto]:
        """The batch as each iteration of an update sees it; one view if all see the same.

        seed, step: keys of random draws.
        """

    def collected(self, views: list[DataProto], measured: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """Measurements of each view ([B, L] by name) as fields of the batch."""

    def for_iteration(self, batch: DataProto, iteration: int) -> DataProto:
        """The batch, with those fields, as one iteration of the update sees it."""
