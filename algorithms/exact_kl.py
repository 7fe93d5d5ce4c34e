"""Exact KL divergence between two policies' next-token distributions, from hidden states.

Chunked over tokens, with logits recomputed in the backward pass, so that only one chunk of [tokens, vocabulary] exists
at a time. It costs about twice as much as log-probs; long runs use the sampled estimators of algorithms/kl.py.
"""

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

CHUNK_ELEMENTS = 1 << 24


def exact_kl(
    hidden: Tensor,
    weight: Tensor,
    ref_hidden: Tensor,
    ref_weight: Tensor,
    temperature: float = 1.0,
) -> Tensor:
    """KL(π ‖ π_ref) = Σ_v π(v)·(ln π(v) − ln π_ref(v)) of each token, in nats ("full" in verl's `compute_kl`).

    hidden: [N, H]; weight: [V, H]; those of the reference likewise, of its own width. Returns [N] float32 with gradient
    to hidden and weight only. Of two vocabularies the tokens of the smaller one count: the others are padding.
    """
    both = min(len(weight), len(ref_weight))
    weight, ref_weight = weight[:both], ref_weight[:both]
    rows = max(1, CHUNK_ELEMENTS // weight.shape[0])
    chunks = [
        checkpoint(_chunk, hidden[i : i + rows], weight, ref_hidden[i : i + rows], ref_weight, temperature,
                   use_reentrant=False)
        for i in range(0, len(hidden), rows)
    ]  # fmt: skip
    return torch.cat(chunks) if chunks else hidden.new_zeros(0, dtype=torch.float32)


def _chunk(hidden: Tensor, weight: Tensor, ref_hidden: Tensor, ref_weight: Tensor, temperature: float) -> Tensor:
    own = torch.log_softmax((hidden @ weight.to(hidden.dtype).T).float() / temperature, -1)
    with torch.no_grad():
        reference = torch.log_softmax((ref_hidden @ ref_weight.to(ref_hidden.dtype).T).float() / temperature, -1)
    return (own.exp() * (own - reference)).sum(-1)
