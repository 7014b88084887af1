"""Progress: plain lines away from a terminal, a bar on one, nothing where nothing is asked for."""

from __future__ import annotations

import io

import pytest

from invariscope.parallel import progress as progress_module
from invariscope.parallel import track


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_plain_line_at_the_end_goes_to_standard_error(capsys: pytest.CaptureFixture[str]):
    with track("training", 3, unit="seeds") as advance:
        for _ in range(3):
            advance()
    captured = capsys.readouterr()
    assert captured.err == "training: 3 of 3 seeds\n"
    assert captured.out == ""


def test_plain_lines_are_seconds_apart(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    now = 100.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now)
    with track("cells", 10) as advance:
        for seconds in (4.0, 2.0, 1.0, 4.5):
            now += seconds
            advance()
    assert capsys.readouterr().err == "cells: 2 of 10\ncells: 4 of 10\n"


def test_a_terminal_gets_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch):
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with track("training", 2, unit="seeds") as advance:
        advance()
        advance()
    shown = screen.getvalue()
    assert "training" in shown
    assert "2/2" in shown
    assert "seeds" in shown
    assert "\x1b[2K" in shown.rsplit("2/2", 1)[1]  # the line is erased


def test_silence_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]):
    with track("training", 1, show=False) as advance:
        advance()
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("terminal", [False, True])
def test_an_exception_passes_through(terminal: bool, monkeypatch: pytest.MonkeyPatch):
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", screen)
    with pytest.raises(ZeroDivisionError), track("training", 2):
        raise ZeroDivisionError
    assert "2 of 2" not in screen.getvalue()
