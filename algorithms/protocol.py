"""DataProto: a batch of rollouts on its way from phase to phase, with named and checked fields.

`batch` holds tensors (a TensorDict, rows first), `non_tensor_batch` one object array per column, `meta_info` facts
about the whole batch. The rows of a group share a `uid`. With n samples of every prompt, group i is rows
[i·n, (i+1)·n); second turns and dropped rows make groups of other sizes. Every operation returns a new DataProto and
leaves its input unchanged. On disk: a safetensors file; nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tensordict import TensorDict
from torch import Tensor

# Known tensors by their shape: B rows, P prompt and L response tokens, T = P + L; each has one size per batch.
TENSOR_FIELDS: dict[str, tuple[str, ...]] = {
    "BP": ("prompts",),
    "BT": ("attention_mask",),
    "BL": (
        *("responses", "response_mask", "engine_log_probs"),  # from rollouts
        *("old_log_probs", "ref_log_probs", "exact_kl", "entropies", "values"),  # from the learner's experience
        *("hwe_mask", "token_level_scores", "token_level_rewards", "kl_coefs"),  # from shaping, as are the next
        *("advantages", "returns", "importance_weights", "entropy_coefs"),
        "chosen",  # from the learner's update
    ),
}
# meta_info entries with one value per row, which are indexed with the rows.
ROW_META = ("global_token_num",)


@dataclass
class DataProto:
    """A batch: `batch` TensorDict [B], `non_tensor_batch` object arrays [B], `meta_info` dict.

    Raises ValueError naming the field that is missing or mis-shaped.
    """

    batch: TensorDict = field(default_factory=lambda: TensorDict({}, batch_size=[0]))
    non_tensor_batch: dict[str, np.ndarray] = field(default_factory=dict)
    meta_info: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.non_tensor_batch = {key: object_column(column) for key, column in self.non_tensor_batch.items()}
        self.validate()

    @classmethod
    def from_dict(
        cls,
        tensors: Mapping[str, Tensor] | None = None,
        non_tensors: Mapping[str, Sequence[Any] | np.ndarray] | None = None,
        meta_info: Mapping[str, Any] | None = None,
    ) -> DataProto:
        """A batch from plain tensors [B, …] and plain columns [B]."""
        for key, tensor in (tensors or {}).items():
            if not isinstance(tensor, Tensor) or tensor.ndim == 0:
                raise ValueError(f"field {key!r} must be a tensor with rows first, got a {type(tensor).__name__}")
        columns: dict[str, Any] = dict(non_tensors or {})
        lengths = {key: len(value) for key, value in [*(tensors or {}).items(), *columns.items()]}
        if len(set(lengths.values())) > 1:
            raise ValueError(f"fields differ in rows: {lengths}")
        rows = next(iter(lengths.values()), 0)
        return cls(TensorDict(dict(tensors or {}), batch_size=[rows]), columns, dict(meta_info or {}))

    def validate(self) -> None:
        """Check every known field's shape. Raises ValueError naming the field, its shape and the one it should have."""
        sizes: dict[str, tuple[int, str]] = {"B": (len(self), "the batch")}
        for key, names in [(key, names) for names, keys in TENSOR_FIELDS.items() for key in keys if key in self.batch]:
            shape = tuple(self.batch[key].shape)
            if len(shape) != len(names):
                raise ValueError(f"field {key!r} must be [{', '.join(names)}], got shape {list(shape)}")
            for name, size in zip(names, shape, strict=True):
                known, source = sizes.setdefault(name, (size, key))
                if known != size:
                    raise ValueError(f"field {key!r} has {name}={size}, but {source} has {name}={known}")
        if {"P", "L", "T"} <= set(sizes) and sizes["P"][0] + sizes["L"][0] != sizes["T"][0]:
            p, length, t = (sizes[name] for name in "PLT")
            raise ValueError(f"field {t[1]!r} has {t[0]} positions; {p[1]} and {length[1]} make {p[0] + length[0]}")
        for key, column in self.non_tensor_batch.items():
            if len(column) != len(self):
                raise ValueError(f"field {key!r} has {len(column)} rows, the batch has {len(self)}")
        for key in ROW_META:
            if key in self.meta_info and len(self.meta_info[key]) != len(self):
                raise ValueError(f"meta_info {key!r} has {len(self.meta_info[key])} entries for {len(self)} rows")

    def require(self, *keys: str) -> tuple[np.ndarray, ...]:
        """The named row columns, in order. Raises ValueError naming the one that is missing."""
        for key in keys:
            if key not in self.non_tensor_batch:
                raise ValueError(f"row field {key!r} is missing (row fields: {', '.join(self.non_tensor_batch)})")
        return tuple(self.non_tensor_batch[key] for key in keys)

    def tensor(self, key: str) -> Tensor:
        """The named tensor. Raises ValueError naming it when it is missing."""
        if key not in self.batch:
            raise ValueError(f"tensor field {key!r} is missing (tensor fields: {', '.join(self.batch.keys())})")
        return self.batch[key]

    @property
    def fields(self) -> list[str]:
        return [*self.batch.keys(), *self.non_tensor_batch]

    def __len__(self) -> int:
        return int(self.batch.batch_size[0])

    def __getitem__(self, rows: int | slice | Sequence[int] | np.ndarray | Tensor) -> DataProto:
        """Rows by slice, indices or boolean mask [B]; a single index gives a batch of one row."""
        index = np.arange(len(self))[rows.cpu().numpy() if isinstance(rows, Tensor) else rows]
        index = np.atleast_1d(index)
        meta = {key: [value[i] for i in index] if key in ROW_META else value for key, value in self.meta_info.items()}
        columns = {key: column[index] for key, column in self.non_tensor_batch.items()}
        return DataProto(self.batch[torch.from_numpy(index.astype(np.int64))], columns, meta)

    def union(self, other: DataProto) -> DataProto:
        """Fields of both. Raises ValueError if the rows differ in number, or both have a field."""
        if len(self) != len(other):
            raise ValueError(f"cannot unite {len(self)} rows with {len(other)}")
        if both := {*self.fields, *self.meta_info} & {*other.fields, *other.meta_info}:
            raise ValueError(f"field {min(both)!r} is in both batches")
        return DataProto(
            TensorDict(dict(self.batch.items()) | dict(other.batch.items()), batch_size=[len(self)]),
            self.non_tensor_batch | other.non_tensor_batch,
            self.meta_info | other.meta_info,
        )

    def save(self, path: str | Path, columns: Sequence[str] | None = None) -> None:
        """Write one safetensors file, with `columns` (all by default) and meta_info as JSON in its header.

        Numpy values become Python values, tuples become lists. Raises TypeError for what is not a JSON value.
        """
        kept = self.non_tensor_batch if columns is None else {key: self.non_tensor_batch[key] for key in columns}
        header = {
            "rows": str(len(self)),
            "columns": json.dumps({key: list(column) for key, column in kept.items()}, default=_plain),
            "meta_info": json.dumps(self.meta_info, default=_plain),
        }
        tensors = {key: tensor.detach().cpu().contiguous().clone() for key, tensor in self.batch.items()}
        save_file(tensors, path, metadata={"batch": json.dumps(header, sort_keys=True)})

    @classmethod
    def load(cls, path: str | Path) -> DataProto:
        """Read what `save` wrote, or a folder of an earlier version."""
        if Path(path).is_dir():
            return cls._load_folder(Path(path))
        with safe_open(path, framework="pt") as file:
            header = json.loads(file.metadata()["batch"])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
        batch = TensorDict(tensors, batch_size=[int(header["rows"])])
        return cls(batch, json.loads(header["columns"]), json.loads(header["meta_info"]))

    @classmethod
    def _load_folder(cls, path: Path) -> DataProto:
        """Read tensors.safetensors, rows.parquet and meta.json, as versions before December 2026 wrote a batch."""
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        table = pq.read_table(path / "rows.parquet")
        columns: dict[str, Any] = {}
        for key in table.column_names:
            values = table[key].to_pylist()
            columns[key] = list(map(json.loads, values)) if key in meta["encoded"] else values
        tensors = load_file(path / "tensors.safetensors")
        return cls(TensorDict(tensors, batch_size=[meta["rows"]]), columns, meta["meta_info"])


def object_column(values: Iterable[Any]) -> np.ndarray:
    """An object array with one Python object per row; lists of equal length stay lists."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
        return values
    rows = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return np.fromiter(rows, dtype=object, count=len(rows))


def _plain(value: Any) -> Any:
    """Numpy scalars and arrays as Python values."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is not a JSON value: {value!r:.60}")
