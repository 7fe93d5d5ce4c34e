"""Pieces of text by token: together they are the text, and a character of several tokens is whole."""

from pathlib import Path

import pytest

from ares.browse.tokens import _pieces, load_pieces

MODEL = "examples/tiny/checkpoints/math"


@pytest.mark.parametrize("text", ["18+4=20. wait", "  two spaces\n", "déjà — 🙂🙂 ok", ""])
def test_pieces_make_up_the_text(text: str) -> None:
    tokenizer = load_pieces(MODEL)
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    pieces = _pieces(ids, tokenizer)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == text


def test_a_model_without_a_tokenizer_file_shows_numbers(tmp_path: Path) -> None:
    assert load_pieces(str(tmp_path)) is None
    assert load_pieces("nobody/never-downloaded") is None
    assert _pieces([7, 12], None) == ["7 ", "12 "]
