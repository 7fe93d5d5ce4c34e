"""DataProto: fields, row operations and storage."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

from algorithms.protocol import DataProto


def batch(rows=6):
    return DataProto.from_dict(
        {
            "prompts": torch.arange(rows * 2).reshape(rows, 2),
            "responses": torch.arange(rows * 3).reshape(rows, 3),
            "attention_mask": torch.ones(rows, 5, dtype=torch.long),
            "response_mask": torch.ones(rows, 3),
            "entropies": torch.rand(rows, 3),
        },
        {
            "uid": [f"p{i // 2}" for i in range(rows)],
            "global_id": list(range(rows)),
            "accuracy": [0.5] * rows,
            "entropies": np.linspace(0, 1, rows),
            "ground_truth": [[1, 2]] * rows,
        },
        {"high_entropy_threshold": 1.5, "video_fps": 2, "global_token_num": list(range(rows))},
    )


def same(a, b):
    assert set(a.fields) == set(b.fields)
    for key, tensor in a.batch.items():
        assert tensor.dtype == b.batch[key].dtype
        assert torch.equal(tensor, b.batch[key])
    for key, column in a.non_tensor_batch.items():
        assert column.tolist() == b.non_tensor_batch[key].tolist()
        assert [type(x) for x in column] == [type(x) for x in b.non_tensor_batch[key]]
    assert a.meta_info == b.meta_info


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"responses": torch.zeros(4)}, r"'responses' must be \[B, L\], got shape \[4\]"),
        ({"responses": torch.zeros(4, 3), "response_mask": torch.zeros(4, 2)}, "'response_mask' has L=2"),
        (
            {"prompts": torch.zeros(4, 2), "responses": torch.zeros(4, 3), "attention_mask": torch.zeros(4, 6)},
            "'attention_mask' has 6",
        ),
        ({"responses": torch.zeros(4, 3), "values": torch.zeros(3, 3)}, "differ in rows"),
        ({"values": 3.0}, "'values' must be a tensor"),
    ],
)
def test_a_misshaped_field_is_named(tensors, message):
    with pytest.raises(ValueError, match=message):
        DataProto.from_dict(tensors)


def test_a_missing_field_is_named():
    data = batch()
    with pytest.raises(ValueError, match="'old_log_probs' is missing"):
        data.tensor("old_log_probs")
    with pytest.raises(ValueError, match="'difficulty' is missing"):
        data.require("uid", "difficulty")
    with pytest.raises(ValueError, match="'difficulty' has 2 rows"):
        DataProto(data.batch, {"difficulty": ["easy", "hard"]})
    with pytest.raises(ValueError, match="global_token_num"):
        DataProto.from_dict({"responses": torch.zeros(2, 3)}, meta_info={"global_token_num": [1]})


def test_rows_by_slice_indices_mask_and_number():
    data = batch()
    assert data[1:3].non_tensor_batch["global_id"].tolist() == [1, 2]
    assert data[[4, 0]].batch["prompts"][:, 0].tolist() == [8, 0]
    assert data[torch.tensor([True, False] * 3)].meta_info["global_token_num"] == [0, 2, 4]
    assert len(data[-1]) == 1
    assert data[-1].non_tensor_batch["global_id"].tolist() == [5]
    assert len(data[[]]) == 0
    with pytest.raises(IndexError):
        data[6]


def only(data, *names):
    """Some of a batch's fields."""
    columns = {key: column for key, column in data.non_tensor_batch.items() if key in names}
    return DataProto.from_dict({key: data.batch[key] for key in names if key in data.batch}, columns)


def test_union():
    data = batch()
    together = only(data, "responses", "uid").union(only(data, "prompts", "accuracy"))
    assert set(together.fields) == {"responses", "prompts", "uid", "accuracy"}
    with pytest.raises(ValueError, match="'responses' is in both"):
        data.union(only(data, "responses"))
    with pytest.raises(ValueError, match="cannot unite"):
        data.union(batch(4))


def test_save_and_load(tmp_path):
    data = DataProto.from_dict(
        {
            "responses": torch.arange(6).reshape(3, 2),
            "old_log_probs": torch.randn(3, 2).bfloat16(),
            "hwe_mask": torch.ones(3, 2).bool(),
        },
        {
            "uid": ["a", "b", None],
            "ground_truth": ["42", 42, {"cases": ["assert f(1)"], "n": 1}],
            "global_id": np.array([1, 2, 3]),
            "accuracy": [1.0, None, math.inf],
            "prompt": [[{"role": "user", "content": "hé"}], [], []],
            "truncated": [True, False, None],
            "nothing": [None] * 3,
            "hash": [2**64 - 1, 0, None],
            "half": ["\ud800", "", "b"],
        },
        {"high_entropy_threshold": 0.25, "global_token_num": [1, 2, 3], "note": None},
    )
    data.save(tmp_path / "batch.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["batch.safetensors"]
    loaded = DataProto.load(tmp_path / "batch.safetensors")
    same(loaded, data)


def test_only_the_columns_that_are_asked_for_are_saved(tmp_path):
    batch().save(tmp_path / "batch", ["uid"])
    loaded = DataProto.load(tmp_path / "batch")
    assert list(loaded.non_tensor_batch) == ["uid"]
    assert loaded.batch.keys() == batch().batch.keys()


def test_a_folder_of_an_earlier_version_is_read(tmp_path):
    """Its batches are replayed by runs that continue."""
    save_file({"responses": torch.arange(6).reshape(3, 2)}, tmp_path / "tensors.safetensors")
    pd.DataFrame({"uid": [1, 2, 3], "difficulty": ['"easy"', '"hard"', "null"]}).to_parquet(tmp_path / "rows.parquet")
    (tmp_path / "meta.json").write_text('{"meta_info": {"step": 3}, "rows": 3, "encoded": ["difficulty"]}')
    loaded = DataProto.load(tmp_path)
    assert loaded.non_tensor_batch["difficulty"].tolist() == ["easy", "hard", None]
    assert loaded.tensor("responses").tolist() == [[0, 1], [2, 3], [4, 5]]
    assert loaded.meta_info == {"step": 3}


def test_save_and_load_without_rows_or_fields(tmp_path):
    for name, data in (
        ("empty", DataProto()),
        ("no_rows", batch()[[]]),
        ("no_columns", only(batch(), "responses")),
    ):
        data.save(tmp_path / name)
        same(DataProto.load(tmp_path / name), data)


def test_what_is_no_data_is_not_saved(tmp_path):
    for data in ({"non_tensors": {"callback": [print]}}, {"meta_info": {"lock": print}}):
        with pytest.raises(TypeError, match="a builtin_function_or_method is not a JSON value: <built-in function"):
            DataProto.from_dict(**data).save(tmp_path / "batch")
