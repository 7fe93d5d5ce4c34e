"""Rows with images and videos: find them, match them with the prompt's placeholders, count their tokens.

Covered: an images and a videos column (paths, encoded bytes, Hugging Face's Image features; one or a list), <image> and
<video> in text and in chat messages, typed parts of messages, images stored in the data set (written to files once, so
that rows hold references only). Every one is read before anything is spent. Not covered:
their patches (ares/data/media.py), images on the network.
"""

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from transformers import AutoConfig

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


class RowMedia(NamedTuple):
    """The images and videos of a data set's rows."""

    references: list[list[str]]
    """For each row those of its images and videos, in the order of its prompt."""
    token_ids: list[list[int]]
    """Its prompt, each placeholder repeated once per token of its picture."""
    embedded: dict[Path, bytes]
    """Images stored in the data set, by the file to write them to."""


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
    ) -> RowMedia:  # fmt: skip
        """The media of every row, all of which are read. folder: base of relative paths.

        Raises MediaError naming the row (as raw's index does) and what is wrong with it.
        """
        kinds = [in_parts(messages)[1] for messages in conversations]
        embedded: dict[Path, bytes] = {}
        records: list[dict[str, Any]] = raw.to_dict("records")  # type: ignore[assignment]
        sources: list[list[str]] = []
        first: dict[str, Any] = {}
        for line, wanted, row in zip(raw.index, kinds, records, strict=True):
            try:
                sources.append(self._sources(wanted, row, config, folder, embedded))
            except MediaError as error:
                raise MediaError(f"{line}: {error}") from error
            for source in sources[-1]:
                first.setdefault(source, line)

        def describe(source: str) -> tuple[str, int]:
            try:
                return self.reader.described(source, embedded.get(Path(source)))
            except MediaError as error:
                raise MediaError(f"{first[source]}: {error}") from error

        with ThreadPoolExecutor(READERS) as pool:
            described = dict(zip(first, pool.map(describe, first), strict=True))
        expanded = [
            self._expanded(line, ids, wanted, [described[source][1] for source in row])
            for line, ids, wanted, row in zip(raw.index, token_ids, kinds, sources, strict=True)
        ]
        return RowMedia([[described[source][0] for source in row] for row in sources], expanded, embedded)

    def _sources(
        self, wanted: list[str], row: Mapping[str, Any], config: DataConfig, folder: Path, embedded: dict[Path, bytes]
    ) -> list[str]:
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
            self._image(next(waiting[kind]), folder, embedded)
            if kind == "image"
            else VIDEO + _path(next(waiting[kind]), folder)
            for kind in wanted
        ]

    def _image(self, value: Any, folder: Path, embedded: dict[Path, bytes]) -> str:
        """The source of an image: its path, or the path it will be written to."""
        if isinstance(value, dict):  # Hugging Face's Image feature
            value = value.get("bytes") if value.get("bytes") is not None else value.get("path")
        if not isinstance(value, bytes):
            return _path(value, folder)
        path = self.files / content_hash(value)
        embedded[path] = value
        return str(path)

    def _expanded(self, line: Any, token_ids: list[int], kinds: list[str], tokens: list[int]) -> list[int]:
        places = [self.placeholders[token] for token in token_ids if token in self.placeholders]
        if places != kinds:
            raise MediaError(
                f"{line}: {len(kinds)} images and videos became {len(places)} placeholder tokens: the text "
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
    return any(bool(_listed(value)) for column in columns for value in column)


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
    if value.startswith("data:"):
        raise MediaError(f"{value:.30}…: images in data URIs are not read; give their bytes, or write them to files")
    if "://" in value:
        raise MediaError(f"{value}: nothing is fetched from the network; download it and name its path")
    return str(Path(folder, value))
