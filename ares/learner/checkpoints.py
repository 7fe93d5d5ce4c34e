"""Files of a learner's checkpoint: whole tensors by name. Nothing is unpickled.

Sharded weights are gathered, one tensor at a time, so that any number of ranks can read what any other has written. Not
covered: the content of a checkpoint (ares/learner/learner.py), atomic writes and hashes (ares/store/store.py).
"""

import errno
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

POLICY, ADAPTERS, REFERENCE, CRITIC, AVERAGE = "policy", "adapters", "reference", "critic", "average"
OPTIMIZER, CRITIC_OPTIMIZER = "optimizer", "critic-optimizer"
COUNTERS = "learner.json"
"""Of training steps and optimiser steps."""


def whole(tensor: Tensor, wait: bool = True) -> Tensor:
    """A tensor on the CPU, gathered from ranks if it is sharded (then every rank must call).

    wait: until it has arrived; else it goes into pinned memory and the caller must wait for the device.
    """
    plain = tensor.detach()
    return (plain.full_tensor() if isinstance(plain, DTensor) else plain).to("cpu", non_blocking=not wait)


def check_room(folder: Path, tensors: Iterable[Tensor]) -> None:
    """Raise OSError where tensors do not fit on a folder's disk, before it is filled."""
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if needed > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, f"it takes {needed:,} bytes")


def check_finite(tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Raise ValueError naming the first weight that is not finite in this rank's parts."""
    for what, named in tensors.items():
        for name, tensor in named.items():
            part = tensor.to_local() if isinstance(tensor, DTensor) else tensor
            if not torch.isfinite(part).all():
                raise ValueError(f"weight {name} is not finite: this {what} must not be checkpointed")


def trained(model: torch.nn.Module) -> dict[str, Tensor]:
    """A model's trainable parameters by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def write(folder: Path | None, name: str, tensors: Mapping[str, Tensor]) -> None:
    """Write named tensors to NAME.safetensors; without a folder only help another rank to gather those it writes."""
    kept = {}
    for key, tensor in tensors.items():
        gathered = whole(tensor)
        if folder is not None:
            kept[key] = gathered.contiguous()
    if folder is not None:
        save_file(kept, folder / f"{name}.safetensors")


def read(folder: Path, name: str) -> dict[str, Tensor]:
    """All tensors by name, on the CPU: views of the file until they are copied; or those that several ranks wrote in
    parts, as versions before December 2026 did where weights were sharded."""
    if not (folder / name).is_dir():
        return load_file(folder / f"{name}.safetensors")
    import torch.distributed.checkpoint as dcp  # takes a third of a second
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    reader = HuggingFaceStorageReader(str(folder / name))
    metadata: dict[str, Any] = reader.read_metadata().state_dict_metadata
    tensors = {key: torch.empty(kept.size, dtype=kept.properties.dtype) for key, kept in metadata.items()}
    dcp.load(tensors, storage_reader=reader, no_dist=True)
    return tensors


def read_into(folder: Path, name: str, targets: Mapping[str, Tensor]) -> None:
    """Fill tensors, whole or this rank's parts, from those written under their names. Raises KeyError."""
    written = read(folder, name)
    for key, target in targets.items():
        _fill(target, written[key])


@torch.no_grad()
def _fill(target: Tensor, value: Tensor) -> None:
    if isinstance(target, DTensor):  # every rank has the whole value, so none has to send it
        value = distribute_tensor(value.to(target.device), target.device_mesh, target.placements, src_data_rank=None)
    target.copy_(value)


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> dict[str, Tensor]:
    """An optimiser's moments and step counts as `key/parameter name`, without bitsandbytes' table of 8-bit values."""
    return {
        f"{key}/{name}": torch.as_tensor(value)
        for name, parameter in model.named_parameters()
        for key, value in optimizer.state.get(parameter, {}).items()
        if key not in ("qmap1", "qmap2")
    }


def load_optimizer(folder: Path, name: str, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Replace an optimiser's moments and step counts with the written ones."""
    optimizer.state.clear()
    fused = optimizer.defaults.get("fused")  # its kernel needs the step count on the device
    parameters = dict(model.named_parameters())
    for moment, value in read(folder, name).items():
        key, _, of = moment.partition("/")
        if (parameter := parameters.get(of)) is None:
            continue
        if key == "step":
            place = torch.zeros((), device=parameter.device if fused else "cpu")
        elif (value.shape, value.dtype) != (parameter.shape, parameter.dtype):
            place = torch.zeros_like(value, device=parameter.device)
        else:
            place = torch.zeros_like(parameter)
        _fill(place, value)
        optimizer.state[parameter][key] = place
    if (tables := getattr(optimizer, "name2qmap", None)) is not None:  # bitsandbytes'
        optimizer.fill_qmap()  # type: ignore[attr-defined]
        for state in optimizer.state.values():
            state["step"] = int(state["step"])
            if "absmax1" in state:
                device = state["absmax1"].device
                state["qmap1"], state["qmap2"] = tables["dynamic"].to(device), tables["udynamic"].to(device)
