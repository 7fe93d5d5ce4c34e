from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from ares.config import DataConfig
from ares.data import check_rows
from ares.data.media import path_of
from ares.data.problems import DataError, load_problems
from tests.ares.builders import tokenizer as text_tokenizer
from tests.ares.data.code_rows import written
from tests.ares.vision_builders import CHART, DOTS, image, load, problems, tokenizer

MARK = "<|image_pad|>"


def marks(tokens: list[int], mark: str = MARK) -> int:
    return tokens.count(tokenizer().convert_tokens_to_ids(mark))


def test_a_picture_takes_the_place_of_its_mark_with_as_many_tokens_as_it_needs(tmp_path: Path) -> None:
    small, large = image(tmp_path, "small.png", (32, 32)), image(tmp_path, "large.png", (64, 48))
    row = {"prompt": "<image>Left or <image>right?", "images": [str(small), str(large)]}
    frame = problems(tmp_path, row, {"prompt": "And you?"}).frame
    assert [path_of(name) for name in frame["media_references"][0]] == [str(small), str(large)]
    assert frame["media_references"][1] == []
    assert marks(frame["prompt_token_ids"][0]) == 4 * 4 + 8 * 6  # 8 × 8 pixels a token
    assert frame["prompt"][0].count(MARK) == 2  # one each: what a person reads
    text = frame["prompt"][0]
    assert text.index("Left") > text.index(MARK)
    assert text.rindex(MARK) < text.index("right")


@pytest.mark.parametrize("pixels", [{"max_pixels": 1024}, {"min_pixels": 4096}])
def test_pixels_are_bounded(tmp_path: Path, pixels: dict[str, int]) -> None:
    row = {"prompt": "<image>?", "images": [str(image(tmp_path, "a.png", (48, 48)))]}
    tokens = marks(problems(tmp_path, row, **pixels).frame["prompt_token_ids"][0])
    assert tokens == (16 if "max_pixels" in pixels else 64)


def test_prompts_that_are_too_long_with_their_pictures_are_left_out_and_counted(tmp_path: Path) -> None:
    small, large = image(tmp_path, "small.png"), image(tmp_path, "large.png", (64, 64))
    rows = [{"prompt": "<image>?", "images": [str(path)]} for path in (small, large)]
    kept = problems(tmp_path, *rows, max_prompt_length=40)
    assert (len(kept), kept.overlong) == (1, 1)
    assert path_of(kept.frame["media_references"][0][0]) == str(small)


def test_every_way_to_hold_an_image_gives_the_same_picture(tmp_path: Path) -> None:
    path = image(tmp_path / "here", "a.png")
    content = path.read_bytes()
    forms: list[Any] = [
        [str(path)],
        [content],
        [{"bytes": content, "path": None}],
        [{"bytes": None, "path": str(path)}],
    ]
    frame = pd.DataFrame({"prompt": "<image>?", "answer": "1", "images": forms})
    for number, form in enumerate(forms):
        frame.iloc[[number]].to_parquet(tmp_path / f"{number}.parquet")
        loaded = load(tmp_path / f"{number}.parquet")
        assert Path(path_of(loaded.frame["media_references"][0][0])).read_bytes() == content, form
        assert loaded.digest() == load(tmp_path / "0.parquet").digest()  # where it lies does not matter


def test_images_start_from_image_dir_or_from_the_folder_of_the_data_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = image(tmp_path / "photos", "a.png")
    loaded = [problems(tmp_path, {"prompt": "<image>?", "images": ["a.png"]}, image_dir=str(tmp_path / "photos"))]
    rows = written(tmp_path / "rows.jsonl", {"prompt": "<image>?", "images": ["photos/a.png"], "answer": "1"})
    for directory, name in ((tmp_path, "rows.jsonl"), (Path("/"), str(rows))):
        monkeypatch.chdir(directory)
        loaded.append(load(Path(name)))
    assert {path_of(each.frame["media_references"][0][0]) for each in loaded} == {str(expected)}


def test_another_content_is_another_data_set(tmp_path: Path) -> None:
    row = {"prompt": "<image>?", "images": [str(image(tmp_path, "a.png", colour="red"))]}
    before = problems(tmp_path, row).digest()
    image(tmp_path, "a.png", colour="blue")
    assert problems(tmp_path, row).digest() != before


def test_frames_are_ordered_by_their_numbers(tmp_path: Path) -> None:
    shown = []
    for width in (1, 2):
        for number in (2, 10, 9, 1):
            image(tmp_path / str(width), f"frame{number:0{width}}.png", colour=f"#0000{number:02}")
        row = {"prompt": "<video>?", "videos": [str(tmp_path / str(width))]}
        shown.append(problems(tmp_path, row).digest())
    assert shown[0] == shown[1]


def test_chat_messages_may_have_typed_parts(tmp_path: Path) -> None:
    parts = [{"type": "image"}, {"type": "text", "text": "How many dots?"}]
    rows = [
        {"prompt": [{"role": "user", "content": parts}], "images": [DOTS]},
        {"prompt": [{"role": "user", "content": "<image>How many dots?"}], "images": [DOTS]},
        {"prompt": "<image>How many dots?", "images": DOTS},
    ]
    token_ids = problems(tmp_path, *rows).frame["prompt_token_ids"]
    assert token_ids[0] == token_ids[1] == token_ids[2]


BROKEN = [
    ({"prompt": "<image>?", "images": ["gone.png"]}, "gone.png: cannot be read: No such file"),
    ({"prompt": "<image>?", "images": ["text.png"]}, "text.png: not a readable image"),
    ({"prompt": "<image>?", "images": ["cut.png"]}, "cut.png: not a readable image"),
    ({"prompt": "<image>?", "images": ["https://example.org/a.png"]}, "nothing is read from a URI"),
    ({"prompt": "?", "images": [DOTS]}, "the prompt has 0 <image>, column 'images' has 1"),
    ({"prompt": "<image><image>?", "images": [DOTS]}, "the prompt has 2 <image>, column 'images' has 1"),
    ({"prompt": "<image>?"}, "the prompt has 1 <image>, column 'images' has 0"),
    ({"prompt": f"<image>{MARK}?", "images": [DOTS]}, "1 images and videos became 2 placeholder tokens"),
    ({"prompt": "<image>?", "images": [7]}, "a path or an image is wanted, this is int 7"),
    ({"prompt": "<image>?", "images": ["thin.png"]}, "absolute aspect ratio must be"),
    ({"prompt": "<image>?", "images": ["data:image/png;base64," + "A" * 9999]}, "2: data:image/png;base64,AAAA"),
    # No part of a message may reach the model as its Python text.
    ({"prompt": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}]}]},
     "are text, this is"),
    ({"prompt": [{"role": "user", "content": [{"type": "image"}, {"type": "text"}]}], "images": [DOTS]},
     "are text, this is"),
    ({"prompt": "<video>?", "videos": ["empty"]}, "empty: a folder of frames with nothing in it"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "told"), BROKEN)
def test_what_cannot_be_used_is_named_with_its_row(tmp_path: Path, row: dict[str, Any], told: str) -> None:
    (tmp_path / "text.png").write_text("no image")
    whole = image(tmp_path, "whole.png", (64, 64)).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    image(tmp_path, "thin.png", (3, 900))
    (tmp_path / "empty").mkdir()
    good = {"prompt": "<image>?", "images": [CHART]}
    with pytest.raises(DataError) as error:
        problems(tmp_path, good, row, image_dir=str(tmp_path))
    assert "problems.jsonl:2: " in str(error.value)
    assert told in str(error.value)


def test_the_same_question_about_two_pictures_is_not_a_duplicate(tmp_path: Path) -> None:
    rows = ({"prompt": "<image>?", "answer": "1", "images": [shown]} for shown in (DOTS, CHART, DOTS))
    source = written(tmp_path / "rows.jsonl", *rows)
    report = check_rows(str(source), "train", DataConfig(train=str(source)), vision=True)
    assert report.counts()["duplicate prompts"] == "1: row 3 repeats row 1"


def test_only_formats_that_start_no_program_are_read(tmp_path: Path) -> None:
    Image.new("RGB", (32, 32)).save(tmp_path / "a.png", "EPS")
    with pytest.raises(DataError, match="not a readable image"):
        problems(tmp_path, {"prompt": "<image>?", "images": [str(tmp_path / "a.png")]})


def test_a_model_that_only_reads_refuses_rows_with_images(tmp_path: Path) -> None:
    row = {"prompt": "?", "answer": "1"}
    file = written(tmp_path / "problems.jsonl", row | {"images": []})
    assert len(load_problems(str(file), "", DataConfig(train=""), text_tokenizer())) == 1
    written(file, row | {"images": ["a.png"]})
    with pytest.raises(DataError, match=r"set model\.family=vision_language"):
        load_problems(str(file), "", DataConfig(train=""), text_tokenizer())
