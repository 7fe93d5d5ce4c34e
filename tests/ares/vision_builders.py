"""Small real objects for the tests of vision-language models: the tiny model, data sets, images."""

import atexit
import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from ares.config.run import DataConfig, ModelConfig
from ares.data.problems import Problems, load_problems
from ares.data.vision import Vision
from ares.models.vision_language import VisionLanguageModel
from examples.tiny.pictures import draw_picture
from tests.ares.builders import REPOSITORY
from tests.ares.data.code_rows import written

MODEL = REPOSITORY / "examples" / "tiny" / "checkpoints" / "vision"
CPU = torch.device("cpu")
PICTURES = Path(tempfile.mkdtemp(prefix="ares-pictures-"))
atexit.register(shutil.rmtree, PICTURES)
DOTS, CHART = str(PICTURES / "dots.png"), str(PICTURES / "chart.png")
draw_picture("rr.b...b.", 1).save(DOTS)
draw_picture("351", 2).save(CHART)

torch.set_num_threads(1)


@functools.cache
def tokenizer() -> PreTrainedTokenizerBase:
    """The tiny model's tokenizer; not to be changed."""
    return AutoTokenizer.from_pretrained(MODEL)


def settings(**others: Any) -> ModelConfig:
    return ModelConfig(**{"path": str(MODEL), "family": "vision_language"} | others)


def model(device: torch.device = CPU, **others: Any) -> VisionLanguageModel:
    """The tiny model as the learner has it."""
    return VisionLanguageModel.load(settings(**others), device, data())


def data(**settings: Any) -> DataConfig:
    return DataConfig(train="problems.jsonl", **settings)


def problems(folder: Path, *rows: dict[str, Any], **settings: Any) -> Problems:
    """A data set of these rows (prompt and anything else), read from a file in the folder."""
    return load(written(folder / "problems.jsonl", *({"answer": "1"} | row for row in rows)), **settings)


def load(file: Path, **settings: Any) -> Problems:
    """A data set read for the tiny model; images that it holds itself go into `images` beside it."""
    read_as = data(**settings)
    return load_problems(
        str(file), "", read_as, tokenizer(), vision=Vision(str(MODEL), read_as, file.parent / "images")
    )


def image(folder: Path, name: str, size: tuple[int, int] = (32, 32), colour: str = "red") -> Path:
    """An image file of one colour."""
    folder.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(folder / name)
    return folder / name
