"""A fake GPU for machines without one: its tensors lie in main memory, but operations that mix devices raise.

Covered: on which device tensors are made and moved, forward and backward, and how often the program would wait for a
GPU. Not covered: kernels, their rounding and speed; autocast, which changes no type here.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map

import ares.learner.learner

NAME = "separate"
aten = torch.ops.aten
WAITING = {
    aten._local_scalar_dense.default, aten.equal.default, aten.masked_select.default, aten.nonzero.default,
    aten.repeat_interleave.Tensor,
}  # fmt: skip
"""Operations for which the program waits for a GPU, since a number or a size depends on their result."""
INDEXING = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._index_put_impl_.default}
"""Likewise, if the index is a mask."""

waits: Counter[str] = Counter()
"""How often the program would have waited, by operation."""


class SeparateTensor(Tensor):
    """A tensor on the device; `held` in main memory has its numbers."""

    @staticmethod
    def __new__(cls, held: Tensor) -> Self:
        where = {"strides": held.stride(), "storage_offset": held.storage_offset(), "device": torch.device(NAME, 0)}
        return Tensor._make_wrapper_subclass(cls, held.size(), dtype=held.dtype, **where)

    def __init__(self, held: Tensor) -> None:
        self.held = held

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        return self.detach()

    @data.setter
    def data(self, other: Tensor) -> None:
        self.held = _held(other)
        Tensor.data.__set__(self, other)  # type: ignore[attr-defined]

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"a tensor on {NAME} has no array: move it to main memory first")

    __array__ = numpy

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return f"{NAME}: {self.held!r}"

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        return _computed(operation, args, kwargs or {})


def _computed(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    own = [each for each in tensors if isinstance(each, SeparateTensor)]
    others = [tuple(each.shape) for each in tensors if not isinstance(each, SeparateTensor) and each.ndim]
    given = kwargs.get("device")
    moves = operation in (aten._to_copy.default, aten.copy_.default)
    if own and others and not moves and operation not in INDEXING:  # CUDA, too, takes an index from main memory
        raise RuntimeError(f"{operation} is given tensors on {NAME} and of shapes {others} in main memory")
    here = _is_here(given) if given is not None else isinstance(args[0], SeparateTensor) if moves else bool(own)
    by_mask = operation in INDEXING and any(
        each.dtype is torch.bool for each in tree_leaves(args[1]) if each is not None
    )
    if own and (operation in WAITING or by_mask or (moves and not here)):
        waits[str(operation)] += 1
    out = operation(*tree_map(_held, args), **tree_map(_held, kwargs))
    if not here:
        return out
    wrapped = tree_map(lambda each: SeparateTensor(each) if isinstance(each, Tensor) else each, out)
    return return_and_correct_aliasing(operation, args, kwargs, wrapped)


def _is_here(device: Any) -> bool:
    return torch.device(device).type == NAME


def _held(value: Any) -> Any:
    if isinstance(value, SeparateTensor):
        return value.held
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == NAME else value


class _Module(backend_registration._DummyBackendModule):
    """torch.separate."""

    def synchronize(self, device: Any = None) -> None:
        waits["synchronize"] += 1

    def empty_cache(self) -> None:
        waits["empty_cache"] += 1

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        pass


_libraries: list[torch.library.Library] = []


def registered() -> bool:
    """Whether the device is registered in this process."""
    return bool(_libraries)


def register() -> None:
    """Register the device with torch, and have the learner use it in place of CUDA, until this process ends.

    Before the first backward pass: torch counts its devices then.
    """
    ares.learner.learner._device = lambda wanted: NAME if wanted == "cuda" else "cpu"
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
    # Moved parameters stay the same objects, tied ones too, as on a GPU.
    torch.__future__.set_swap_module_params_on_conversion(True)
    everything, operations = torch.library.Library("_", "IMPL"), torch.library.Library("aten", "IMPL")
    _libraries[:] = [everything, operations]  # a library that is collected is unregistered
    everything.fallback(lambda operation, *args, **kwargs: _computed(operation, args, kwargs), "PrivateUse1")
    everything.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    # torch.tensor calls these, outside any subclass of Tensor.
    for name, form in {
        "empty.memory_format": _made(aten.empty.memory_format),
        "empty_strided": _made(aten.empty_strided.default),
        "arange": _made(aten.arange.default),
        "arange.start": _made(aten.arange.start),
        "arange.start_step": _made(aten.arange.start_step),
        "_copy_from": _copied,
        "_local_scalar_dense": lambda tensor: tensor.held.item(),
    }.items():
        operations.impl(name, form, "PrivateUse1")


def _made(operation: Any) -> Callable[..., SeparateTensor]:
    def make(*args: Any, device: Any = None, **kwargs: Any) -> SeparateTensor:
        return SeparateTensor(operation(*args, device="cpu", **kwargs))

    return make


def _copied(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    _held(target).copy_(_held(source))
    return target
