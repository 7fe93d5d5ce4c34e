import pytest
from hypothesis import given
from hypothesis import strategies as st

from ares.printable import printable, without_credentials


def test_escape_sequences_are_shown_and_not_obeyed() -> None:
    assert printable("\x1b]0;title\x07 \x9b2J\r") == "\\x1b]0;title\\x07 \\x9b2J\\x0d"


@given(st.text())
def test_only_newlines_and_tabs_of_control_characters_are_left(text: str) -> None:
    left = {character for character in printable(text) if ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0}
    assert left <= {"\n", "\t"}


@given(st.text(st.characters(blacklist_categories=["Cc"])))
def test_other_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at http://user:word@host:5000/x failed: me@host", "at http://host:5000/x failed: me@host"),
        ("postgresql+psycopg2://user:a@word@host/db", "postgresql+psycopg2://host/db"),
        ("sqlite:////home/me@host/mlflow.db", "sqlite:////home/me@host/mlflow.db"),
        ("http://host/a@b", "http://host/a@b"),
    ],
)
def test_addresses_are_shown_without_passwords(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
