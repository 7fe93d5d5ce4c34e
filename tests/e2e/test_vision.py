"""A vision-language run through the real command line: pictures by reference, inspect, export, eval."""

import json
from functools import partial
from pathlib import Path

import pytest
from mlflow import MlflowClient
from transformers import AutoImageProcessor, AutoModelForImageTextToText

from ares.data.media import path_of
from ares.store.store import RunStore
from tests import short_runs
from tests.ares.data.code_rows import written
from tests.ares.vision_builders import MODEL, image
from tests.short_runs import ares, samples

pytestmark = pytest.mark.slow
SHORTER = ["train.steps=2", "train.checkpoint_every=2", "learner.global_batch_prompts=4", "bootstrap.max_prompts=6"]
train = partial(short_runs.train, profile="tiny-vision")


@pytest.fixture(scope="module")
def vision_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("vision")
    assert train(runs, "whole", *SHORTER, whole=True) == 0
    return runs


def test_pictures_go_through_the_same_steps_by_reference(vision_runs: Path) -> None:
    store = RunStore(vision_runs / "whole")
    assert store.committed_steps() == [0, 1, 2]
    commit = store.read_commit(2)
    rows = samples(vision_runs, "whole", 2)
    assert len(rows) == 16
    assert rows["media_references"].map(len).eq(1).all()
    assert rows["media_references"].map(lambda row: "@sha256:" in row[0]).all()
    assert rows["reward_entropy_score"].notna().all()
    assert commit.metrics["reward/format"] > 0.5  # warm-started
    assert commit.metrics["mismatch/logprob_diff_mean"] < 1e-4
    assert not list((vision_runs / "whole" / "steps").rglob("*.png"))


def test_inspect_names_the_picture(vision_runs: Path) -> None:
    row = samples(vision_runs, "whole", 1).iloc[0]
    one = ["--id", row["id"], "--sample", str(row["sample"])]
    shown = ares(vision_runs, "inspect", "whole", "--step", "1", *one).stdout
    assert f"image: {path_of(row['media_references'][0])}" in shown


def test_mlflow_has_the_pictures_of_the_samples(vision_runs: Path) -> None:
    client = MlflowClient(tracking_uri=f"sqlite:///{vision_runs / 'mlflow.db'}")
    run_id = json.loads((vision_runs / "whole" / "run.json").read_text())["mlflow_run_id"]
    assert len(client.list_artifacts(run_id, "images")) > 4


def test_an_exported_run_is_evaluated_on_own_images(vision_runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "exported"
    assert ares(vision_runs, "export", "whole", "--out", str(out)).returncode == 0
    assert AutoModelForImageTextToText.from_pretrained(out).num_parameters() > 0
    assert AutoImageProcessor.from_pretrained(out, backend="pil").patch_size == 4
    rows = [
        {"id": str(number), "prompt": "<image>How many dots?", "images": [f"{number}.png"], "answer": "1"}
        for number in range(4)
    ]
    for row in rows:
        image(tmp_path / "photos", row["images"][0], (40, 40))
    data = written(tmp_path / "own.jsonl", *rows)
    told = ares(vision_runs, "eval", "whole", "--data", str(data), "--n", "2", f"data.image_dir={tmp_path / 'photos'}")
    assert told.returncode == 0, told.stderr[-3000:]


def test_an_own_checkpoint_trains_on_rows_with_images(vision_runs: Path, tmp_path: Path) -> None:
    """`ares train vision model.path=… data.train=…`, cut down to this machine."""
    rows = []
    for number in range(6):
        image(tmp_path / "photos", f"{number}.png", (40 + 8 * number, 40), "blue")
        rows.append({"prompt": "<image>How many?", "images": [f"photos/{number}.png"], "answer": "1"})
    data = written(tmp_path / "own.jsonl", *rows)
    ended = ares(
        vision_runs, "train", "vision", f"model.path={MODEL}", f"data.train={data}", f"data.image_dir={tmp_path}",
        "model.dtype=float32", "rollout.engine=transformers", "data.min_pixels=64", "data.max_pixels=1024",
        "rollout.prompts=2", "rollout.n=2", "rollout.max_response_length=8", "learner.global_batch_prompts=2",
        "bootstrap.n=1", "train.steps=1", "algorithm.filter.enabled=false", "--run", "own",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr[-3000:]
    assert samples(vision_runs, "own", 1)["media_references"].map(len).eq(1).all()
