"""Rows with images and videos: find them, match them with the prompt's placeholders, count their tokens.

Covered: an images and a videos column (paths, encoded bytes, Hugging Face's Image features; one or a list), <image> and
<video> in text and in chat messages, typed parts of messages, images stored in the data set (written to files once, so
that rows hold references only). Every one is read before anything is spent. Not covered:
their patches (ares/data/media.py), images on the network.
"""

import functools
import re
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd

from ares.config import Config, ConfigError, DataConfig, RolloutConfig
from ares.data.media import VIDEO, MediaError, MediaReader, content_hash, is_video
from ares.data.sources import is_missing

PLACES = {"<image>": "image", "<video>": "video"}
_PLACE = re.compile("|".join(PLACES))
IMAGES = ".images"
"""Folder beside the runs for images stored in data sets; a file is named by the hash of its content."""
READERS = 8
"""Threads that look at the images of a data set before a run."""
Message = dict[str, Any]
Looked = tuple[list[str], list[int]]
"""A row's references and prompt tokens."""


class Vision:
    """Prepares a data set for a vision-language model. `files`: folder for images stored in a data set."""

    @classmethod
    def of(cls, config: Config, runs: Path) -> "Vision | None":
        """For the configured model; None for a text model. Raises MediaError."""
        if config.model.family != "vision_language":
            return None
        return cls(config.model.location, config.data, runs / IMAGES)

    def __init__(self, model_path: str, data: DataConfig, files: Path) -> None:
        """Raises MediaError when the model's directory has no image processor or no placeholder tokens."""
        from transformers import AutoConfig  # four CPU seconds

        self.model_path, self.files = model_path, files
        self.reader = MediaReader(model_path, data)
        config = AutoConfig.from_pretrained(model_path)
        try:
            self.placeholders = {config.image_token_id: "image", config.video_token_id: "video"}
        except AttributeError as error:
            raise MediaError(f"model.path={model_path}: no vision-language model: {error}") from error

    def look(
        self, raw: pd.DataFrame, conversations: list[list[Message]], token_ids: list[list[int]], config: DataConfig,
        folder: Path,
    ) -> list[Looked]:  # fmt: skip
        """For each row the references of its images and videos, all of which are read, in the order of its prompt; and
        that prompt, each placeholder repeated once per token of its picture. folder: base of relative paths.

        Raises MediaError naming the row (as raw's index does) and what is wrong with it.
        """
        describe = functools.cache(self.reader.described)

        def look(line: Any, messages: list[Message], ids: list[int], row: dict[str, Any]) -> Looked:
            wanted = in_parts(messages)[1]
            try:
                described = [describe(source) for source in self._sources(wanted, row, config, folder)]
                return [name for name, _ in described], self._expanded(ids, wanted, [size for _, size in described])
            except ValueError as error:
                raise MediaError(f"{line}: {error}") from error

        with ThreadPoolExecutor(READERS) as pool:
            return list(pool.map(look, raw.index, conversations, token_ids, raw.to_dict("records")))

    def _sources(self, wanted: list[str], row: Mapping[str, Any], config: DataConfig, folder: Path) -> list[str]:
        """The sources of a row's images and videos, in the order of its prompt, which wants these kinds."""
        columns = {"image": config.images_key, "video": config.videos_key}
        given = {kind: _listed(row.get(key)) for kind, key in columns.items()}
        for kind, values in given.items():
            if wanted.count(kind) != len(values):
                raise MediaError(
                    f"the prompt has {wanted.count(kind)} <{kind}>, column {columns[kind]!r} has {len(values)}"
                )
        waiting = {kind: iter(values) for kind, values in given.items()}
        return [
            self._image(next(waiting[kind]), folder) if kind == "image" else VIDEO + _path(next(waiting[kind]), folder)
            for kind in wanted
        ]

    def _image(self, value: Any, folder: Path) -> str:
        """The source of an image: its path, or the path that it is written to."""
        if isinstance(value, dict):  # Hugging Face's Image feature
            value = value.get("bytes") if value.get("bytes") is not None else value.get("path")
        if not isinstance(value, bytes):
            return _path(value, folder)
        path = self.files / content_hash(value)
        if not path.exists():
            self.files.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f".{path.name}.{threading.get_ident()}")
            partial.write_bytes(value)
            partial.replace(path)
        return str(path)

    def _expanded(self, token_ids: list[int], kinds: list[str], tokens: list[int]) -> list[int]:
        places = [self.placeholders[token] for token in token_ids if token in self.placeholders]
        if places != kinds:
            raise MediaError(
                f"{len(kinds)} images and videos became {len(places)} placeholder tokens: the text "
                f"itself holds such a token, or the chat template of {self.model_path} has no place for them"
            )
        sizes = iter(tokens)
        return [each for token in token_ids for each in [token] * (next(sizes) if token in self.placeholders else 1)]


def check_media(problems: pd.DataFrame, source: str, rollout: RolloutConfig) -> None:
    """Raise ConfigError when the engine cannot take the images or videos of a data set."""
    if rollout.engine != "vllm" or "media_references" not in problems:
        return
    if any(is_video(reference) for row in problems["media_references"] for reference in row):
        raise ConfigError(f"{source} has videos, vLLM is given images only: set rollout.engine=transformers")
    most = int(problems["media_references"].map(len).max())
    if most > rollout.vllm.images:
        raise ConfigError(f"{source}: a prompt has {most} images; set rollout.vllm.images={most}")


def has_media(raw: pd.DataFrame, config: DataConfig) -> bool:
    """Whether any row has an image or a video."""
    columns = [raw[key] for key in (config.images_key, config.videos_key) if key in raw]
    listed = (each for column in columns for value in column for each in _listed(value))
    return any(any(each.values()) if isinstance(each, dict) else each not in (None, "") for each in listed)


def spoken(prompt: Any) -> Any:
    """A prompt whose typed parts ({"type": "image"}, {"type": "text", "text": …}) are text with <image> in it.

    A message with a part of another kind stays as it is, which ares/data/chats.py refuses.
    """
    messages = []
    for message in prompt if isinstance(prompt, list) else []:
        parts = message.get("content") if isinstance(message, dict) else None
        texts = list(map(_part, parts)) if isinstance(parts, list) else [None]
        messages.append(message if None in texts else {**message, "content": "".join(map(str, texts))})
    return messages or prompt


def _part(part: Any) -> str | None:
    """A typed part as text; None of a kind that is not read."""
    kind = part.get("type") if isinstance(part, dict) else None
    if kind == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    return part if isinstance(part, str) else f"<{kind}>" if kind in PLACES.values() else None


def in_parts(messages: list[dict[str, str]]) -> tuple[list[Message], list[str]]:
    """Chat messages with <image> and <video> as typed parts, as chat templates expect; and their kinds in order."""
    kinds: list[str] = []
    typed: list[Message] = []
    for message in messages:
        places = [PLACES[place] for place in _PLACE.findall(message["content"])]
        if not places:
            typed.append(dict(message))
            continue
        kinds += places
        first, *texts = _PLACE.split(message["content"])
        parts = [{"type": "text", "text": first}]
        for place, text in zip(places, texts, strict=True):
            parts += [{"type": place}, {"type": "text", "text": text}]
        typed.append({**message, "content": [part for part in parts if part.get("text") != ""]})
    return typed, kinds


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if is_missing(value) else [value]


def _path(value: Any, folder: Path) -> str:
    if not isinstance(value, str) or not value:
        raise MediaError(f"a path or an image is wanted, this is {type(value).__name__} {value!r:.60}")
    if value.startswith("data:") or "://" in value:
        raise MediaError(f"{value:.60}: nothing is read from a URI; give the bytes, or write them to a file")
    return str(Path(folder, value))
