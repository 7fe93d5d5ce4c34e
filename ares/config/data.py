"""Settings of data: which problems are trained on and evaluated on, and how a row becomes a prompt.

Covered: sources, columns, templates, pictures, held-out sets with columns of their own. Not covered: which of them
contradict each other (ares/config/rules.py), reading them (ares/data).
"""

import re
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, JsonValue, ValidationError, field_validator, model_validator

from algorithms.curriculum import CurriculumSettings
from algorithms.settings import MOST, MOST_TOKENS, Strict
from ares.config.strict import explain

Source = str | list[str]
"""A file, a glob, a folder, a Hugging Face data set as name:configuration@revision, a procedural task
as reasoning_gym:NAME?size=500&SETTING=…; or several of them."""
Schedule = Annotated[dict[Annotated[int, Field(ge=0)], Annotated[float, Field(ge=0)]], Field(min_length=1)]
"""Numbers at some steps: between two of them it changes evenly, before the first and after the last one it stays."""
Order = Literal["shuffled", "easy_first", "medium_first"]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_METRICS = ("ema", "episode", "few_steps", "rewards", "second_turn")
"""What metrics of all held-out problems are called (val/ema/accuracy), so no set is."""


class HeldOutConfig(Strict):
    """One of several held-out sets. What is open is as for the train set."""

    source: Source
    """As data.train."""
    split: str = "test"
    """Split of a Hugging Face data set; where it is open, data.validation_split."""
    prompt_key: str | None = None
    """Column with the problem."""
    answer_key: str | None = None
    """Column with the reference answer."""
    tests_key: str | None = None
    """Column with the unit tests."""
    id_key: str | None = None
    """Column that names a problem."""


def _held_out_sets(value: Any) -> Any:
    """A mapping of names as held-out sets, so that an error in one is told as of a section."""
    if not isinstance(value, dict):
        return value
    sets: dict[str, HeldOutConfig] = {}
    for name, given in value.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r:.60} cannot name a held-out set: letters, digits, '.', '_' and '-', at most 50")
        if name in _METRICS:
            raise ValueError(f"{name!r} cannot name a held-out set: val/{name}/… are metrics of all sets")
        section = given if isinstance(given, dict | HeldOutConfig) else {"source": given}
        try:
            sets[name] = HeldOutConfig.model_validate(section)
        except ValidationError as error:
            raise ValueError(explain(error, HeldOutConfig, name)) from error
    if not sets:
        raise ValueError("no held-out set is named")
    return sets


def _named_sources(value: Any) -> Any:
    """A mapping of names as sources of a mixture."""
    if isinstance(value, dict):
        if len(value) < 2:
            raise ValueError("a mixture has two sources or more; one needs no name")
        for name, source in value.items():
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                raise ValueError(f"{name!r:.60} cannot name a source: letters, digits, '.', '_' and '-', at most 50")
            if not isinstance(source, str):
                raise ValueError(f"{name}: a source is a text, not {source!r:.60}")
    return value


class DataConfig(Strict):
    """Which problems are trained on and evaluated on, and how a row becomes a prompt."""

    train: Annotated[Source | dict[str, str], BeforeValidator(_named_sources)]
    """A .jsonl, .json, .csv (each also .gz) or .parquet file, a glob, a folder, a Hugging Face data set as
    name:configuration@revision, a procedural task as reasoning_gym:NAME?size=500&SETTING=…; a list of them; or a
    mixture of them by name, each with metrics of its own (train/NAME/…)."""
    grows: bool = False
    """data.train is a folder to which files are added while the run goes on. Each step looks for new ones when it ends,
    and from the next step on their problems are drawn among those that this epoch has left."""
    weights: dict[str, Annotated[float, Field(gt=0)] | Schedule] | None = None
    """How often the sources of a mixture are drawn from, relative to each other; one that is drawn from more often than
    its size says begins anew earlier, and what skipped problems leave goes to all. None: each problem as often. A
    weight may follow a schedule of steps: {100: 0, 200: 3} is 0 up to step 100, rises to 3, and stays."""
    order: Order = "shuffled"
    """Which problems an epoch draws first, by their accuracy in the bootstrap: easy ones, or those near ½; the others
    by and by, those that the bootstrap left out last. shuffled: any."""
    curriculum: CurriculumSettings | None = None
    """Draw from one source of data.train at a time, in the order of its list: its levels, easy ones first. None: from
    all of them."""
    validation: Annotated[Source | dict[str, HeldOutConfig] | None, BeforeValidator(_held_out_sets)] = None
    """The same for evaluation, or several sets by name, each a source or a section of its own (source, split,
    prompt_key, answer_key, tests_key, id_key). None: nothing is evaluated."""
    train_split: str = "train"
    """Split of a Hugging Face data set to train on."""
    validation_split: str = "test"
    """Split of a Hugging Face data set to evaluate on."""
    limit: int | None = Field(None, ge=1, le=MOST)
    """Use only this many rows of the train set, the first ones; of a mixture, of each of its sets. None: all."""
    prompt_key: str = "prompt"
    """Column with the problem: text, or a list of chat messages. For `ares sft` with what the assistant says."""
    answer_key: str = "answer"
    """Column with the reference answer. It may be absent where functions of yours alone judge (reward.kind). For
    `ares sft` what is answered to a prompt that does not hold it."""
    tests_key: str = "test_cases"
    """Column with the unit tests of a code problem; the published sets' own columns are found without it."""
    id_key: str = "id"
    """Column that names a problem. Without such a column the row number is used."""
    format_prompt: str | None = None
    """Template put around the problem text; `{prompt}` marks its place. Chat messages are left as they are."""
    system_prompt: str | None = None
    """System message of every prompt that has none of its own."""
    chat_template_kwargs: dict[str, JsonValue] = Field({})
    """Further arguments of the chat template, such as enable_thinking: false."""
    drop_shared: bool = False
    """Leave problems out of training whose prompt is held out too, but for case, spaces and closing punctuation."""
    max_prompt_length: int = Field(1024, ge=1, le=MOST_TOKENS)
    """Tokens after the chat template, those of pictures included. Longer prompts are left out and counted."""
    images_key: str = "images"
    """Column with the images of a prompt, each in the place of an <image>: paths, or images themselves."""
    videos_key: str = "videos"
    """Column with the videos, each in the place of a <video>: folders of frames, or video files."""
    image_dir: str | None = None
    """Folder that the paths of images and videos start from; None: the folder of the file that names them."""
    min_pixels: int | None = Field(None, ge=1, le=MOST)
    """Images (and each frame) are enlarged to at least this many pixels. None: as the model's directory says."""
    max_pixels: int | None = Field(None, ge=1, le=MOST)
    """Images (and each frame) are made smaller to at most this many pixels: fewer tokens. None: as the model says."""
    video_fps: float = Field(2.0, gt=0, le=1000)
    """Frames of a video's second that are looked at; a folder holds frames that were taken at this rate."""

    @property
    def levels(self) -> list[str]:
        """The sources of the train set, if they are levels of a curriculum."""
        return list(self.train) if self.curriculum is not None else []

    @property
    def train_sets(self) -> dict[str, Source]:
        """The sources of the train set by name: those of a mixture, a curriculum's levels by number, or "" for all."""
        if isinstance(self.train, dict):
            return dict(self.train)
        return {str(level): one for level, one in enumerate(self.levels)} or {"": self.train}

    def weights_at(self, step: int) -> list[float]:
        """The weight of each source at a step, if they have any; between the points of a schedule it changes evenly."""
        named, weights = self.weights or {}, []
        for name in self.train_sets if named else ():
            given = named[name]
            points = sorted(given.items()) if isinstance(given, dict) else [(0, given)]
            weights.append(float(np.interp(step, [at for at, _ in points], [weight for _, weight in points])))
        return weights

    @property
    def held_out(self) -> dict[str, HeldOutConfig]:
        """The held-out sets by name; "" names one that has none."""
        if isinstance(self.validation, dict):
            return self.validation
        return (
            {} if self.validation is None else {"": HeldOutConfig(source=self.validation, split=self.validation_split)}
        )

    @property
    def held_out_names(self) -> list[str]:
        """The names of the held-out sets that have one."""
        return [name for name in self.held_out if name]

    def with_columns_of(self, name: str) -> "DataConfig":
        """These settings for a held-out set: its own columns where it names any."""
        keys = {"prompt_key", "answer_key", "tests_key", "id_key"}
        return self.model_copy(update=self.held_out[name].model_dump(include=keys, exclude_none=True))

    @model_validator(mode="after")
    def _open_splits_are_the_settings_one(self) -> "DataConfig":
        for each in self.held_out.values():
            if "split" not in each.model_fields_set:
                each.split = self.validation_split
        return self

    @field_validator("format_prompt")
    @classmethod
    def _format_prompt_has_a_place(cls, template: str | None) -> str | None:
        if template is not None and "{prompt}" not in template:
            raise ValueError("there is no {prompt} in it")
        return template
