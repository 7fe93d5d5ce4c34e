"""What the learner asks of a model, whatever its kind: causal, vision-language or masked-diffusion.

Covered: the two interfaces. Not covered: what the kinds compute (the modules beside this one), which there are
(ares/models/kinds.py).
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
    """Rows that pass through a model together: tensors by name and, of a vision-language model, pictures."""

    def __getitem__(self, name: str, /) -> Any: ...

    def keys(self) -> Any: ...


@dataclass
class TokenLogProbs:
    """Of every response token, row after row: [N] each."""

    log_probs: Tensor
    entropies: Tensor


class ReferenceModel(Protocol):
    """What a policy is compared with; never trained."""

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
    """A model that is trained. Its weights are float32; it computes in model.dtype."""

    packs: bool
    """Rows of a pass may stand in one packed sequence."""

    @classmethod
    def load(cls, config: ModelConfig, device: torch.device, data: DataConfig | None = None) -> Self:
        """The model of a directory; `data` says how pictures are read. Raises ModelError."""

    def frozen(self) -> Self:
        """The same as a reference, its parameters in the type it computes in."""

    def row_sizes(self, batch: DataProto) -> RowSizes:
        """What rows cost in a pass."""

    def on_device(self, rows: DataProto) -> Pass:
        """Rows as `token_log_probs` takes them."""

    def exact_kl(self, reference: ReferenceModel, batch: Pass, temperature: float) -> Tensor:
        """KL(own ‖ reference) over the whole vocabulary at each response token: [N] nats, gradient to own weights."""

    def views(self, batch: DataProto, seed: int, step: int, iterations: int) -> list[DataProto]:
        """The batch as the iterations of an update will see it: one view, or one for each where they differ.

        seed, step: keys of what is drawn for them.
        """

    def collected(self, views: list[DataProto], measured: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
        """What was measured of each view ([B, L] by name) as fields of the batch."""

    def for_iteration(self, batch: DataProto, iteration: int) -> DataProto:
        """The batch with those fields as an iteration of the update sees it."""
