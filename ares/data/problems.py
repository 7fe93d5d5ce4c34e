"""Problems: data sets whose rows are checked before anything is spent, and turned into prompt tokens.

    {"question": "3+4", "answer": 7, "level": 1}        a row of a file; data.prompt_key=question
    [{"role": "user", "content": "3+4"}]                its messages, and the text that a chat template makes of them
    id, prompt, prompt_token_ids, answer, level, …      a row of `Problems.frame`

Covered: overlong prompts, rows that are left out, sets that are joined, the places of images and videos (whose columns
ares/data/vision.py reads). Not covered: what is wrong with a row (ares/data/rows.py), files (ares/data/sources.py).
"""

import functools
import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from ares.config import ConfigError, DataConfig, Needs, Source, absent_model, location
from ares.data.chats import check_template
from ares.data.code import with_unit_tests
from ares.data.rows import (
    OPENING,
    Row,
    each_row,
    is_prompt_only,
    missing_columns,
    needs_of_rows,
    with_graders,
)
from ares.data.shared import shared_prompts
from ares.data.sources import DataError, folder_of, place, read_rows, shown, together
from ares.data.vision import Vision, has_media

ASKED = "as asked"
"""Column with the prompt as the row holds it: text, or a list of chat messages."""
OWN = "own:"
"""Prefix of the columns of a row whose names the frame uses for something else."""
_OURS = ("media_references", "begun", "stops", "base_tests", "episode_error")
"""Columns that only vision-language models, suites and environments add to problems and samples."""


Begin = Callable[[pd.DataFrame, Source, DataConfig], pd.DataFrame]
"""(raw rows, their source, the settings that name their columns) → the rows that are read."""


@dataclass(frozen=True)
class Problems:
    """A checked data set: one row per problem, in the order of the file."""

    source: str
    frame: pd.DataFrame
    """Columns id, prompt (text as the model sees it), answer (as the row holds it; absent where rewards need none and
    rows have none), prompt_token_ids, and whatever else the rows had; for code also test_cases, stdin_tests, setup,
    entry_point and solution, and answer is the solution or ""; for a vision-language model media_references: what the
    prompt shows (ares/data/media.py), in its order."""
    overlong: int
    """Rows left out because the prompt was longer than data.max_prompt_length."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Rows that are no problems, `3 (Mbpp/7)`, and why: code without a test, an answer that cannot be graded."""
    repeated: tuple[str, ...] = ()
    """Columns that repeat prompt and id, and so are left out of the digest."""

    def __len__(self) -> int:
        return len(self.frame)

    def digest(self) -> str:
        """Hash of every row: what the model sees and everything a reward may read."""
        frame = self.frame.drop(columns=["prompt_token_ids", *self.repeated], errors="ignore")
        if "media_references" in frame:
            frame = frame.assign(media_references=self._shown())
        if "answer" in frame:
            # Scalars as text, as when answers did not keep their types: older runs must still resume.
            texts = [json.dumps(each) if isinstance(each, list | dict) else str(each) for each in frame["answer"]]
            frame = frame.assign(answer=texts)
        return digest_of(frame)

    def shared_with(self, held_out: "Problems") -> np.ndarray:
        """Which of these problems [N] (bool) have the same prompt and media as a held-out one."""
        return shared_prompts(self._asked(), held_out._asked())

    def without(self, dropped: np.ndarray) -> "Problems":
        """The problems without those marked in `dropped` [problems]. Raises DataError if none is left."""
        if dropped.all():
            raise DataError(f"{self.source}: all {len(self)} prompts are held out too (data.drop_shared=true)")
        return replace(self, frame=self.frame[~dropped].reset_index(drop=True))

    def _asked(self) -> list[str]:
        """Each prompt with the hashes of its images and videos."""
        prompts = self.frame["prompt"]
        if OPENING in self.frame and "seed" in self.frame:  # games may begin with the same words
            prompts = prompts + " " + self.frame["seed"].astype(str)
        return (prompts + " " + self._shown() if "media_references" in self.frame else prompts).tolist()

    def _shown(self) -> pd.Series:
        """The hashes of each prompt's images and videos: their contents count, not their paths."""
        return self.frame["media_references"].map(lambda names: " ".join(name.rpartition("@")[2] for name in names))

    def reasons(self) -> dict[str, list[str]]:
        """Why rows are left out, and which."""
        rows: dict[str, list[str]] = {}
        for row, why in self.left_out.items():
            rows.setdefault(why, []).append(row)
        return rows

    def first(self, count: int | None) -> "Problems":
        """The first `count` problems (None: all)."""
        return self if count is None else replace(self, frame=self.frame.head(count))

    def parts(self, names: Iterable[str]) -> list["Problems"]:
        """The `joined` sets of these names; the whole set without names."""
        of = self.frame["id"].str.partition("/")[0]
        return [replace(self, frame=self.frame[of == name]) for name in names] or [self]

    def rows(self, ids: list[str]) -> pd.DataFrame:
        """The rows of these ids, in this order."""
        places = self._ids.get_indexer(pd.Index(ids))
        if (places < 0).any():
            raise KeyError(f"{self.source} has no problem {ids[int((places < 0).argmax())]!r}")
        return self.frame.iloc[places].reset_index(drop=True)

    @functools.cached_property
    def _ids(self) -> pd.Index:
        return pd.Index(self.frame["id"])


def digest_of(frame: pd.DataFrame) -> str:
    """Hash of every value of a table."""
    try:
        rows = frame.to_json(orient="split", index=False, default_handler=str, double_precision=15)
    except (UnicodeDecodeError, OverflowError):  # bytes that are no text, dates beyond pandas' own
        rows = frame.map(repr).to_json(orient="split", index=False)
    return hashlib.sha256(rows.encode()).hexdigest()[:16]


def load_train(
    config: DataConfig, tokenizer: PreTrainedTokenizerBase, needs: Needs, vision: Vision | None = None,
    begin: Begin | None = None,
) -> Problems:  # fmt: skip
    """The train set of the settings, as `load_problems` has it; a mixture or a curriculum's levels are `joined`."""
    return joined({
        name: load_problems(one, config.train_split, config, tokenizer, needs, vision, config.limit, begin, name)
        for name, one in config.train_sets.items()
    })  # fmt: skip


def load_held_out(
    config: DataConfig, tokenizer: PreTrainedTokenizerBase, needs: Needs, vision: Vision | None = None,
    begin: Begin | None = None,
) -> dict[str, Problems]:  # fmt: skip
    """The held-out sets of the settings by name ("": one without), each as `load_problems` has it."""
    return {
        name: load_problems(
            each.source,
            each.split,
            config.with_columns_of(name),
            tokenizer,
            needs,
            vision,
            begin=begin,
            name=name,
            held_out=True,
        )
        for name, each in config.held_out.items()
    }


def level_of(name: str) -> int:
    """The curriculum's level of a training problem, by its id."""
    return int(name.partition("/")[0])


def joined(sets: dict[str, Problems]) -> Problems:
    """Sets, at least one, as one whose ids are `set/id`; a set without a name is returned as it is.

    Columns that only some sets have are None in the others.
    """
    if "" in sets:
        return sets[""]
    parts = [
        replace(
            each,
            frame=each.frame.assign(id=f"{name}/" + each.frame["id"]),
            left_out={f"{name}/{row}": why for row, why in each.left_out.items()},
        )
        for name, each in sets.items()
    ]
    return merged(parts)


def merged(parts: list[Problems]) -> Problems:
    """The rows of all parts, one part after the other."""
    return Problems(
        source=", ".join(dict.fromkeys(part.source for part in parts)),
        frame=together([part.frame for part in parts]).reset_index(drop=True),
        overlong=sum(part.overlong for part in parts),
        left_out={row: why for part in parts for row, why in part.left_out.items()},
        repeated=tuple(dict.fromkeys(column for part in parts for column in part.repeated)),
    )


def load_problems(
    source: Source, split: str, config: DataConfig, tokenizer: PreTrainedTokenizerBase, needs: Needs = "answer",
    vision: Vision | None = None, limit: int | None = None, begin: Begin | None = None, name: str = "",
    held_out: bool = False,
) -> Problems:  # fmt: skip
    """Read, check and tokenise a data set. Raises DataError naming the row and what is wrong with it.

    needs: what every row must have (`RewardConfig.needs`). vision: for a vision-language model. limit: rows to read.
    begin: what changes rows before they are checked (an environment, which puts its first observation into their
    prompts). name: of the set, and of its grader where rows name none. held_out: as for `read_rows`.
    """
    raw = read_rows(source, split, limit, held_out)
    raw = raw if begin is None else begin(raw, source, config)
    raw = with_graders(raw, needs, name)
    if absent := missing_columns(raw, config, needs):
        raise DataError(f"{shown(source)}: {absent[0]}")
    check_template(tokenizer, config.chat_template_kwargs)
    rows = list(each_row(raw, config, needs, vision is not None, tokenizer))
    for row in rows:
        if row.wrong:
            raise DataError(f"{place(source, row.line)}: {row.wrong[0]}")
    return as_problems(raw, rows, source, config, tokenizer, needs, vision)


def as_problems(
    raw: pd.DataFrame, rows: list[Row], source: Source, config: DataConfig, tokenizer: PreTrainedTokenizerBase,
    needs: Needs = "tests", vision: Vision | None = None, adds_special_tokens: bool = False,
) -> Problems:  # fmt: skip
    """Tokenise rows that were read, without those that are left out. Raises DataError, as if none can be used."""
    if isinstance(needs, dict):
        of_rows = needs_of_rows(raw, needs)
        parts = [
            as_problems(raw, [row for row in rows if of_rows[row.position] == need], source, config, tokenizer, need,
                        vision, adds_special_tokens)
            for need in dict.fromkeys(of_rows) if need is not None
        ]  # fmt: skip
        whole, place_of = merged(parts), {row.id: row.position for row in rows}
        places = whole.frame["id"].map(place_of).to_numpy()
        return replace(whole, frame=whole.frame.iloc[np.argsort(places)].reset_index(drop=True))
    kept = [row for row in rows if not row.left_out]
    if not kept:
        others = f" (none of the {len(rows)} rows can be used)" if len(rows) > 1 else ""
        raise DataError(f"{place(source, rows[0].line)}: {rows[0].left_out}{others}")
    raw = raw.iloc[[row.position for row in kept]].rename(columns={name: OWN + name for name in _OURS})
    if needs == "tests":
        raw = with_unit_tests(raw, [row.problem for row in kept if row.problem], config.tests_key)
    texts = [row.text for row in kept]
    token_ids = tokenizer(texts, add_special_tokens=adds_special_tokens, verbose=False)["input_ids"]
    if vision is not None:
        folder = Path(config.image_dir or folder_of(source)).absolute()  # the run may be resumed from elsewhere
        lines = pd.Index([place(source, row.line) for row in kept])
        chats = [row.messages for row in kept]
        looked = vision.look(raw.set_axis(lines), chats, token_ids, config, folder)
        token_ids = [ids for _, ids in looked]
        raw = raw.drop(columns=[config.images_key, config.videos_key], errors="ignore")
        raw = raw.assign(media_references=pd.Series([names for names, _ in looked], index=raw.index))
    elif has_media(raw, config):
        raise DataError(
            f"{shown(source)}: column {config.images_key!r} or {config.videos_key!r} shows something, the model only "
            "reads: set model.family=vision_language, or name another column with data.images_key=…"
        )
    frame = raw.drop(columns=[config.prompt_key, config.id_key], errors="ignore").assign(
        id=[row.id for row in kept], prompt=texts, prompt_token_ids=token_ids
    )
    if needs == "tests" or not is_prompt_only(raw, config, needs):
        frame["answer"] = pd.Series([row.answer for row in kept], index=raw.index, dtype=object)
    keys = (config.prompt_key, config.id_key)
    ours = {"prompt": config.prompt_key, "id": config.id_key, "answer": config.answer_key}
    replaced = {*keys, *(name for name, key in ours.items() if name != key)}
    for name in raw if needs != "tests" else ():  # in the order of the file, on which the digest depends
        if name in replaced:
            frame[f"{OWN}{name}"] = raw[name]
    frame[ASKED] = pd.Series([row.asked for row in kept], index=raw.index, dtype=object)
    lengths = frame["prompt_token_ids"].map(len)
    fits = lengths <= config.max_prompt_length
    if not fits.any():
        raise DataError(
            f"{shown(source)}: all {len(fits)} prompts are longer than data.max_prompt_length="
            f"{config.max_prompt_length} (the shortest has {lengths.min()} tokens)"
        )
    return Problems(
        source=shown(source),
        frame=frame[fits].reset_index(drop=True),
        overlong=int((~fits).sum()),
        left_out={f"{row.line} ({row.id})": row.left_out for row in rows if row.left_out},
        repeated=(ASKED, *(OWN + key for key in keys)),
    )


def load_tokenizer(path: str, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer of a model. Raises ConfigError."""
    from transformers import AutoTokenizer  # six CPU seconds, which what only reads a run need not wait for

    try:
        tokenizer = AutoTokenizer.from_pretrained(location(path), trust_remote_code=trust_remote_code)
        empty = len(tokenizer) <= len(tokenizer.added_tokens_decoder)
    except Exception as error:  # of a damaged file the tokenizers library raises nothing narrower
        cause = f"{type(error).__name__}: {' '.join(str(error).split())}"
        absent = absent_model(path, error)
        raise ConfigError(absent or f"model.path={path}: no tokenizer can be loaded from there: {cause}") from error
    if empty:  # transformers builds one from a directory that has no tokenizer file
        raise ConfigError(f"model.path={path}: no tokenizer can be loaded from there: it has no vocabulary")
    return tokenizer
