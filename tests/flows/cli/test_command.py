import pytest

from flows.cli import command


def test_the_number_of_a_line_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich makes a picture of :100: unless it is told not to."""
    for console in (command.console, command.errors):
        console.print("rows.jsonl:100: not JSON", markup=False)
    assert capsys.readouterr() == ("rows.jsonl:100: not JSON\n", "rows.jsonl:100: not JSON\n")
