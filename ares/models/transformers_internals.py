"""All uses of transformers beyond its documented interface.

Each entry says what it uses, why, since which version of transformers it works, and which test notices when a new
version breaks it. Nothing of transformers is replaced: attention and caches are our own classes, registered or passed
through its interfaces. The registered attention itself is in ares/models/packed_attention.py.
"""

import inspect
from typing import Any

from torch import Tensor
from transformers import DynamicCache, PretrainedConfig, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

ROOM = 64
"""Tokens that a growing cache has room for when it is copied."""
WINDOWS = {"sliding_window", "attention_chunk_size"}
"""Settings of which transformers' cache makes layers that drop keys."""


def uses_attention_interface(decoder: Any, *names: str) -> bool:
    """Whether a decoder's attention goes through transformers' AttentionInterface and is now one of these.

    What: `PreTrainedModel._supports_attention_backend`, `PretrainedConfig._attn_implementation`.
    Why: `set_attn_implementation` accepts any decoder, also one whose layers ignore what it sets.
    Since 4.48. Notices: tests/ares/models/test_causal.py (every family packs, others do not).
    """
    return getattr(decoder, "_supports_attention_backend", False) and decoder.config._attn_implementation in names


def layer_classes(model: Any) -> set[str]:
    """Names of the classes of a model's layers, which FSDP gathers one at a time.

    What: `PreTrainedModel._no_split_modules`. Why: there is no public list of the layers of any architecture.
    Since 4.20. Notices: tests/ares/learner/test_ranks.py (sharded layers hold a part of their weights).
    """
    return set(model._no_split_modules or ())


def load_with_report(kind: Any, path: str, settings: Any, **how: Any) -> tuple[Any, dict[str, Any]]:
    """A model of this class from its files, and which tensors were missing, unexpected or of another shape.

    What: `PreTrainedModel.from_pretrained` on classes that override it. Why: Dream's own takes no
    `output_loading_info`. Since 4.46. Notices: tests/ares/models/test_masked_diffusion.py (remote code).
    """
    how |= {"output_loading_info": True, "ignore_mismatched_sizes": True}
    model, info = PreTrainedModel.from_pretrained.__func__(kind, path, config=settings, **how)
    return model, info


class GrowingLayer(DynamicLayer):
    """Keys and values [B, heads, tokens, D]: views into buffers that have room for some more tokens.

    What: the fields of `DynamicLayer` (keys, values, lazy_initialization). Why: its own `update` copies everything for
    every new token, which takes 7 to 24 % of a training step on a CPU.
    Since 4.56. Notices: tests/ares/engines/test_transformers_engine.py (the bits of transformers' own cache).
    """

    keys: Tensor | None
    values: Tensor | None
    _room: list[Tensor] | None = None

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append tokens [B, heads, new, D]; returns all keys and values."""
        held = self.get_seq_length()
        length = held + key_states.shape[-2]
        if self._room is None or length > self._room[0].shape[-2]:
            before = (self.keys, self.values) if held else (None, None)
            self.lazy_initialization(key_states, value_states)
            self._room = [_make_room(before[0], key_states, length), _make_room(before[1], value_states, length)]
        keys, values = self._room
        keys[:, :, held:length], values[:, :, held:length] = key_states, value_states
        self.keys, self.values = keys[:, :, :length], values[:, :, :length]
        return self.keys, self.values

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Keep these rows, in this order."""
        super().reorder_cache(beam_idx)
        self._room = None


def _make_room(held: Tensor | None, states: Tensor, length: int) -> Tensor:
    batch, heads, _, size = states.shape
    room = states.new_empty(batch, heads, length + ROOM, size)
    if held is not None:
        room[:, :, : held.shape[-2]] = held
    return room


def growing_cache(config: PretrainedConfig) -> DynamicCache:
    """An empty cache for a model, with room for more tokens where its layers are of full attention.

    What: the layers that `DynamicCache` makes of a configuration. Why: of a Llama's whose config.json still has the
    window of the Mistral it was made of, it makes layers that drop keys, although its attention knows no window.
    Since 4.56. Notices: tests/ares/engines/test_decoding.py (the answers of transformers without a cache).
    """
    cache = DynamicCache(config=config)
    known = inspect.signature(type(config.get_text_config(decoder=True))).parameters
    full = {DynamicLayer} if known.keys() & WINDOWS else {DynamicLayer, DynamicSlidingWindowLayer}
    cache.layers = [GrowingLayer() if type(layer) in full else layer for layer in cache.layers]
    return cache
