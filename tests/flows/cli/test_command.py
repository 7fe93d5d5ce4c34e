import signal

import pytest

from flows.cli import command, main


def test_the_number_of_a_line_is_printed_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """Rich turns :100: into an emoji unless it is told not to."""
    for console in (command.console, command.errors):
        console.print("rows.jsonl:100: not JSON", markup=False)
    assert capsys.readouterr() == ("rows.jsonl:100: not JSON\n", "rows.jsonl:100: not JSON\n")


def test_an_interrupted_command_leaves_ctrl_c_to_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pressed again while Ray shuts down, it would end in a traceback from Ray."""

    def interrupted() -> None:
        raise SystemExit(130)

    monkeypatch.setattr(main, "app", interrupted)
    monkeypatch.setattr("sys.argv", ["ares", "train", "x"])
    before = signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(SystemExit):
            main.main()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGINT, before)
