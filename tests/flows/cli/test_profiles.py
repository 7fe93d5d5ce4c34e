"""`ares profiles`: one line per profile, in columns."""

from typer.testing import CliRunner

from ares.config import profile_names
from flows.cli.main import app


def test_what_profiles_are_for_is_in_one_column() -> None:
    *lines, last = CliRunner().invoke(app, ["profiles"]).stdout.splitlines()
    names = profile_names()
    assert last == "next: ares train NAME, or ares new MINE --from NAME"
    assert [line.split()[0] for line in lines] == names
    column = max(map(len, names)) + 2
    for name, line in zip(names, lines, strict=True):
        assert line[:column] == name.ljust(column)
        assert line[column] != " "


def test_no_sentence_is_cut() -> None:
    """The first line of a comment of two was printed alone."""
    lines = CliRunner().invoke(app, ["profiles"]).stdout.splitlines()
    (secret,) = [line for line in lines if line.startswith("tiny-code-secret")]
    assert secret.endswith("a second one can read it from the failed test, if all but the guess was right.")
    assert all(line.endswith(".") for line in lines[:-1])
