"""Images and videos: references in rows, and the patches that a model is given.

Covered: references with a hash of the content, reading (image files, folders of frames, video files),
resizing and cutting into patches by transformers' image processor. A row holds references only; they are read when it
is passed through a model, which fails if the content has changed. Not covered: columns of a data set
(ares/data/vision.py), models (ares/models/vision_language.py), images on the network.

The processor is transformers' PIL one everywhere, so an image is the same numbers with and without torchvision. Of a
video each frame goes through it; then every `temporal_patch_size` frames are laid together, as Qwen2-VL's own video
processor does with frames that have been resized.
"""

import hashlib
import io
import itertools
import re
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image, ImageOps
from torch import Tensor

from ares.config import DataConfig
from ares.data.sources import DataError

VIDEO = "video:"
"""Prefix of a reference to a video."""
MARK = "@sha256:"
DIGITS = 16
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""Formats that PIL reads without starting other programs."""
CACHE_BYTES = 1 << 29
"""Patches that a process caches: a prompt's samples follow each other, and every epoch reads them again."""


class MediaError(DataError):
    """An image or a video cannot be used; the message names it."""


@dataclass(frozen=True)
class Patches:
    """An image or a video as a model sees it."""

    pixels: Tensor
    """[t·h·w, channels · temporal patch · patch²]."""
    grid: tuple[int, int, int]
    """Patches in time, height and width: t, h, w. An image has t = 1."""


class MediaReader:
    """Reads references as the model in a directory sees them."""

    def __init__(self, model_path: str, data: DataConfig) -> None:
        """Raises MediaError when the directory holds no image processor."""
        from transformers import AutoImageProcessor  # runs of text need not wait for it

        self.fps = data.video_fps
        try:
            self.processor = AutoImageProcessor.from_pretrained(model_path, backend="pil")
        except (OSError, ValueError) as error:
            raise MediaError(f"model.path={model_path}: it holds no image processor: {error}") from error
        for name, pixels in (("shortest_edge", data.min_pixels), ("longest_edge", data.max_pixels)):
            if pixels is not None:  # Qwen2-VL's processors call their bounds on pixels edges
                setattr(self.processor.size, name, pixels)
        self._kept: OrderedDict[str, Patches] = OrderedDict()

    def patches(self, reference: str) -> Patches:
        """The patches of a reference. Raises MediaError when its content is gone or has changed."""
        if reference not in self._kept:
            source, _, digest = reference.rpartition(MARK)
            frames, now = _frames(source, self.fps)
            if now != digest:
                raise MediaError(f"{source}: its content has changed since the run was started ({digest} → {now})")
            self._kept[reference] = self._cut(frames, source.startswith(VIDEO))
            while sum(each.pixels.nbytes for each in self._kept.values()) > CACHE_BYTES and len(self._kept) > 1:
                self._kept.popitem(last=False)
        self._kept.move_to_end(reference)
        return self._kept[reference]

    def resized(self, reference: str) -> Image.Image:
        """An image at the size of its patches. Raises MediaError."""
        _, height, width = self.patches(reference).grid
        (frame,), _ = _frames(reference.rpartition(MARK)[0], self.fps)
        edge = self.processor.patch_size
        return frame.resize((width * edge, height * edge), self.processor.resample)

    def described(self, source: str) -> tuple[str, int]:
        """The reference of a source, which is read in full, and the number of tokens it takes. Raises MediaError, and
        ValueError for one much longer than wide."""
        frames, digest = _frames(source, self.fps)
        size = {"size": self.processor.size}
        patches = self.processor.get_number_of_image_patches(frames[0].height, frames[0].width, size)
        steps = -(-len(frames) // self.processor.temporal_patch_size) if source.startswith(VIDEO) else 1
        return f"{source}{MARK}{digest}", steps * patches // self.processor.merge_size**2

    def _cut(self, frames: list[Image.Image], video: bool) -> Patches:
        cut = self.processor(images=frames, return_tensors="pt")
        pixels, (_, height, width) = cut["pixel_values"], cut["image_grid_thw"][0].tolist()
        if not video:
            return Patches(pixels, (1, height, width))
        together = self.processor.temporal_patch_size
        channels = 3
        # The processor repeats an image over time: take one moment of each frame.
        still = pixels.view(len(frames), height * width, channels, together, -1)[:, :, :, 0]
        still = torch.cat([still, still[-1:].expand(-len(frames) % together, -1, -1, -1)])
        steps = len(still) // together
        moving = still.view(steps, together, height * width, channels, -1).permute(0, 2, 3, 1, 4)
        return Patches(moving.reshape(steps * height * width, -1), (steps, height, width))


def content_hash(content: bytes) -> str:
    """The hash in references."""
    return hashlib.sha256(content).hexdigest()[:DIGITS]


def is_video(reference: str) -> bool:
    """Whether a reference names a video."""
    return reference.startswith(VIDEO)


def path_of(reference: str) -> str:
    """The path in a reference."""
    return reference.rpartition(MARK)[0].removeprefix(VIDEO)


def thumbnail(reference: str, side: int) -> Image.Image:
    """A small copy of an image, or of a video's first frame, its longer edge `side` pixels. Raises MediaError."""
    frame = _frames(reference.rpartition(MARK)[0], fps=1.0)[0][0]
    return ImageOps.contain(frame, (side, side))


def _frames(source: str, fps: float) -> tuple[list[Image.Image], str]:
    """The RGB frames of a source, and the hash of its content: an image has one frame, a folder all that are in it,
    frame2 before frame10, taken at data.video_fps, a video file `fps` of each second."""
    name = source.removeprefix(VIDEO)
    path = Path(name)
    try:
        is_folder = is_video(source) and path.is_dir()
        files = sorted(filter(Path.is_file, path.iterdir()), key=_numbered) if is_folder else [path]
        contents = {str(file): file.read_bytes() for file in files}
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name
        raise MediaError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    hashes = list(map(content_hash, contents.values()))
    if is_video(source) and not is_folder:
        return _sampled(path, fps), hashes[0]
    frames = [read_image(content, file) for file, content in contents.items()]
    if not frames:
        raise MediaError(f"{path}: a folder of frames with nothing in it")
    if len({frame.size for frame in frames}) > 1:
        raise MediaError(f"{path}: its frames differ in size")
    return frames, content_hash("".join(hashes).encode()) if is_folder else hashes[0]


def _numbered(file: Path) -> tuple[list[str | int], str]:
    """What sorts names by the numbers in them; 01 comes before 1."""
    parts = re.split(r"(\d+)", file.name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], file.name


def read_image(content: bytes, name: str) -> Image.Image:
    """An encoded image, upright, RGB. Raises MediaError naming it."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            return ImageOps.exif_transpose(image).convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise MediaError(f"{name}: not a readable image ({', '.join(FORMATS)}): {error}") from error


def _sampled(path: Path, fps: float) -> list[Image.Image]:
    """Of a video file the frame shown at each time k / fps."""
    try:
        import cv2  # no dependency of ares: vLLM brings it
    except ImportError as error:
        raise MediaError(
            f"{path}: reading a video file needs opencv-python-headless; install it, or name a folder of frames"
        ) from error
    video: Any = cv2.VideoCapture(str(path))
    native = video.get(cv2.CAP_PROP_FPS) or fps
    taken: list[Image.Image] = []
    for number in itertools.count(1):
        is_frame, frame = video.read()
        if not is_frame:
            break
        while len(taken) / fps < number / native:
            taken.append(Image.fromarray(cv2.cvtColor(frame, cv2.COLOR_BGR2RGB)))
    video.release()
    if not taken:
        raise MediaError(f"{path}: not a readable video")
    return taken
