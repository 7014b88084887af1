"""``invariscope report``: the report of a run, built anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from invariscope.cli.main import main


def test_the_report_is_built_anew_with_the_same_bytes(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "fake", "--out", "here"]) == 0
    report = fake / "here" / "report.html"
    whole = report.read_bytes()
    report.unlink()
    capsys.readouterr()
    assert main(["report", "here"]) == 0
    assert report.read_bytes() == whole
    assert "Report: here/report.html" in capsys.readouterr().out.splitlines()


def test_a_folder_without_a_run_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {tmp_path}")
    assert "expected" in err
    assert len(err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_claims_yet_is_bad_input(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "fake", "--fail", "interrupt", "--out", "here"])
    capsys.readouterr()
    assert main(["report", "here"]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not (fake / "here" / "report.html").exists()


def test_claims_that_were_changed_by_hand_are_refused(fake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "fake", "--preset", "wrong", "--out", "here"])
    claims = fake / "here" / "claims.json"
    claims.write_text(claims.read_text().replace('"not reproduced"', '"reproduced"'))
    capsys.readouterr()
    assert main(["report", "here"]) == 2
    assert "claims.json, which is no whole JSON file (its checksum does not fit its content)" in capsys.readouterr().err
    # Nor with a checksum that fits.
    text = claims.read_text()
    claims.write_text(text[: text.rindex(",")] + "}")
    assert main(["report", "here"]) == 2
    assert "its numbers say 'not reproduced'" in capsys.readouterr().err


def test_the_folder_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    assert "RUN_DIR" in capsys.readouterr().err
