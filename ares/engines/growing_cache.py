"""A key-value cache with room for more tokens: transformers' own copies everything for every new token.

Covered: layers of full attention. Not covered: sliding windows and other kinds of layers, which stay as they are.
"""

from typing import Any

from torch import Tensor
from transformers import DynamicCache, PretrainedConfig
from transformers.cache_utils import DynamicLayer


class GrowingLayer(DynamicLayer):
    """Keys and values [B, heads, tokens, D]: views into buffers that are over-allocated by half.

    The same numbers as DynamicLayer's, whose copies took a third of an engine's time on a CPU.
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
            self._room = [_with_room(before[0], key_states, length), _with_room(before[1], value_states, length)]
        keys, values = self._room
        keys[:, :, held:length], values[:, :, held:length] = key_states, value_states
        self.keys, self.values = keys[:, :, :length], values[:, :, :length]
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep only these rows."""
        super().batch_select_indices(indices)
        self._room = None


def _with_room(held: Tensor | None, states: Tensor, length: int) -> Tensor:
    batch, heads, _, size = states.shape
    room = states.new_empty(batch, heads, length + length // 2, size)
    if held is not None:
        room[:, :, : held.shape[-2]] = held
    return room


def growing_cache(config: PretrainedConfig) -> DynamicCache:
    """An empty cache for a model, with room for more tokens where its layers allow it."""
    cache = DynamicCache(config=config)
    cache.layers = [GrowingLayer() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache
