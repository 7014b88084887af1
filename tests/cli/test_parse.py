"""From words to options: our errors are one line, tyro's are its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from invariscope.cli.parse import parse, parse_known
from invariscope.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    """A part.

    Args:
        steps: at least one.
    """

    steps: int = 4

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ConfigError(f"steps = {self.steps}", expected="at least 1", do="correct steps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    """A whole.

    Args:
        width: any.
        strict: a switch.
        inner: a part.
    """

    width: int = 64
    strict: bool = False
    inner: Inner = field(default_factory=Inner)


def test_the_default_stands_where_nothing_is_said() -> None:
    default = Outer(width=32, inner=Inner(steps=9))
    assert parse(Outer, [], prog="demo", default=default) == default
    assert parse(Outer, ["--inner.steps", "2"], prog="demo", default=default) == Outer(width=32, inner=Inner(steps=2))
    assert parse(Outer, [], prog="demo") == Outer()


def test_our_own_error_comes_out_of_the_box_and_nothing_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(Outer, ["--inner.steps", "0"], prog="demo")
    assert str(caught.value) == "steps = 0; expected at least 1; correct steps"
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--width", "wide"], "invalid literal for int"),
        (["--widht", "3"], "--width"),
        (["--no-strict"], "Unrecognized options: --no-strict"),
        (["--width"], "Missing value for argument '--width'"),
    ],
)
def test_what_tyro_says_is_said_once_and_exits_with_2(args: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(Outer, args, prog="demo")
    assert caught.value.code == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("For full helptext") == 1


def test_help_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        parse(Outer, ["--help"], prog="demo", default=Outer(width=32))
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert said.count("usage: demo") == 1
    assert "--width INT" in said
    assert "(default: 32)" in said


def test_words_of_others_are_handed_back_in_order() -> None:
    options, others = parse_known(Inner, ["--a.b", "1", "2", "--steps", "3", "--help", "--c=d"], prog="demo")
    assert options == Inner(steps=3)
    assert others == ["--a.b", "1", "2", "--help", "--c=d"]
