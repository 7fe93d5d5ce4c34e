"""Files of a learner's checkpoint: named tensors, whole in one file or sharded over ranks in a folder.

Covered: writing and reading either kind, into whole tensors or each rank's part (torch.distributed.checkpoint over
safetensors: nothing is unpickled), whatever the number of ranks that wrote it. Not covered: the content of a checkpoint
(ares/learner/learner.py), atomic writes and hashes (ares/store/store.py). torch.distributed.checkpoint is imported only
for shards: it takes a third of a second in every process.
"""

import errno
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.distributed.tensor import DTensor, distribute_tensor

POLICY, ADAPTERS, REFERENCE, CRITIC = "policy", "adapters", "reference", "critic"
OPTIMIZER, CRITIC_OPTIMIZER = "optimizer", "critic-optimizer"
COUNTERS = "learner.json"


def whole(tensor: Tensor, wait: bool = True) -> Tensor:
    """A tensor on the CPU, gathered from ranks if it is sharded (then every rank must call).

    wait: until it has arrived; else it goes into pinned memory and the caller must wait for the device.
    """
    plain = tensor.detach()
    return (plain.full_tensor() if isinstance(plain, DTensor) else plain).to("cpu", non_blocking=not wait)


def local(tensor: Tensor) -> Tensor:
    """This rank's part of a tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def check_room(folder: Path, tensors: Iterable[Tensor]) -> None:
    """Raise OSError where tensors do not fit on a folder's disk, before it is filled."""
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if needed > shutil.disk_usage(folder).free:
        raise OSError(errno.ENOSPC, f"it takes {needed:,} bytes")


def not_finite(tensors: Mapping[str, Mapping[str, Tensor]]) -> str | None:
    """An error message for the first weight that is not finite in this rank's parts; None if all are."""
    for what, named in tensors.items():
        for name, tensor in named.items():
            if not torch.isfinite(local(tensor)).all():
                return f"weight {name} is not finite: this {what} must not be checkpointed"
    return None


def trained(model: torch.nn.Module) -> dict[str, Tensor]:
    """A model's trainable parameters by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def write_counters(folder: Path, counters: Mapping[str, int]) -> None:
    """Write a learner's counters."""
    (folder / COUNTERS).write_text(json.dumps(counters))


def read_counters(folder: Path) -> dict[str, int]:
    """Read what `write_counters` wrote."""
    counters: dict[str, int] = json.loads((folder / COUNTERS).read_text())
    return counters


def write(folder: Path, name: str, tensors: Mapping[str, Tensor], first: bool = True) -> None:
    """Write named tensors: NAME.safetensors by the first rank, or the folder NAME by all if any is sharded."""
    if any(isinstance(tensor, DTensor) for tensor in tensors.values()):
        import torch.distributed.checkpoint as dcp
        from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

        target = HuggingFaceStorageWriter(str(folder / name), save_distributed=True)
        dcp.save({key: tensor.detach() for key, tensor in tensors.items()}, storage_writer=target)
        if first:  # dcp.save returns when every rank has written
            for file in sorted((folder / name).glob("*.safetensors")):
                _sort_metadata(file)
    elif first:
        kept = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
        save_file(kept, _whole_file(folder, name))


def _sort_metadata(file: Path) -> None:
    """Sort the metadata of a safetensors file: its order varies from write to write, and files are hashed."""
    with file.open("r+b") as handle:
        size = int.from_bytes(handle.read(8), "little")
        header = json.loads(handle.read(size))
        header["__metadata__"] = dict(sorted(header.get("__metadata__", {}).items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        assert len(text) <= size, f"{file}: its header grew"
        handle.seek(8)
        handle.write(text.ljust(size))


def names(folder: Path, name: str) -> set[str]:
    """Names of the written tensors."""
    from safetensors import safe_open

    tensor_names: set[str] = set()
    for file in sorted((folder / name).glob("*.safetensors")) or [_whole_file(folder, name)]:
        with safe_open(file, framework="pt") as opened:
            tensor_names |= set(opened.keys())
    return tensor_names


def read(folder: Path, name: str) -> dict[str, Tensor]:
    """All tensors, whole, on the CPU."""
    if not (folder / name).is_dir():
        return load_file(_whole_file(folder, name))
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    written = HuggingFaceStorageReader(str(folder / name)).read_metadata().state_dict_metadata
    tensors = {key: kept for key, kept in written.items() if isinstance(kept, TensorStorageMetadata)}
    whole_tensors = {key: torch.empty(kept.size, dtype=kept.properties.dtype) for key, kept in tensors.items()}
    _read_shards(folder / name, whole_tensors, alone=True)
    return whole_tensors


@torch.no_grad()
def read_into(folder: Path, name: str, targets: Mapping[str, Tensor]) -> None:
    """Fill tensors (whole, or this rank's parts) from those written under their names. Raises KeyError."""
    if (folder / name).is_dir():
        _read_shards(folder / name, {key: target.detach() for key, target in targets.items()})
        return
    kept = load_file(_whole_file(folder, name))
    for key, target in targets.items():
        fill(target, kept[key])


@torch.no_grad()
def fill(target: Tensor, value: Tensor) -> None:
    """Copy a tensor, whole or sharded like the target, into a target that may be sharded."""
    if isinstance(target, DTensor) and not isinstance(value, DTensor):
        # Every rank has the whole value, so none has to send it.
        value = distribute_tensor(value.to(target.device), target.device_mesh, target.placements, src_data_rank=None)
    target.copy_(value)


def _read_shards(folder: Path, targets: dict[str, Tensor], alone: bool = False) -> None:
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader

    dcp.load(targets, storage_reader=HuggingFaceStorageReader(str(folder)), no_dist=alone or not dist.is_initialized())


def _whole_file(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


def optimizer_tensors(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> dict[str, Tensor]:
    """AdamW's moments and step counts as `key/parameter name`."""
    return {f"{key}/{name}": value for name, state in _states(optimizer, model) for key, value in state.items()}


def load_optimizer(folder: Path, name: str, optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """Replace AdamW's moments and step counts with the written ones."""
    kept = names(folder, name)
    optimizer.state.clear()
    fused = optimizer.defaults.get("fused")  # its kernel needs the step count on the device
    for parameter_name, parameter in model.named_parameters():
        if f"step/{parameter_name}" in kept:
            optimizer.state[parameter] = {
                "step": torch.zeros((), device=parameter.device if fused else "cpu"),
                "exp_avg": torch.zeros_like(parameter),
                "exp_avg_sq": torch.zeros_like(parameter),
            }
    read_into(folder, name, optimizer_tensors(optimizer, model))


def _states(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> Iterator[tuple[str, dict[str, Tensor]]]:
    for name, parameter in model.named_parameters():
        if parameter in optimizer.state:
            yield name, optimizer.state[parameter]
