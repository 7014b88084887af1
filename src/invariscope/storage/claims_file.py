"""claims.json: every claim of one run, with the verdicts that follow from the numbers beside them.

The file is for people and for the report: it holds the derived verdict and the full note, reasons included. On
reading both are derived again, and a file in which they disagree with the numbers is refused.

>>> import tempfile
>>> path = Path(tempfile.mkdtemp()) / "claims.json"
>>> claim = Claim(id="demo/rank", statement="The core has rank 3", source="arXiv:2602.22600, Fig. 2", unit="directions",
...               mark=Mark(kind="within", target=3, tolerance=0), measured=3, preset="quick")
>>> write_claims(path, [claim], experiment="demo", preset="quick")
>>> read_claims(path).claims[0].verdict
'reproduced'
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from invariscope.errors import ConfigError, ForeignFileError, InvariscopeError
from invariscope.storage.atomic import JSON, read_json, write_json
from invariscope.storage.claims import Claim, Control, Mark

__all__ = ["CLAIMS_SCHEMA_VERSION", "ClaimsFile", "read_claims", "write_claims"]

CLAIMS_SCHEMA_VERSION = 1

_Check = Callable[[Any], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsFile:
    """What claims.json holds: the experiment, the preset and the claims in the order written.

    Args:
        experiment, preset, claims: as written.
        answer: the outcome in a sentence, where a run measures somebody's own question and tests no claim; else empty.
    """

    experiment: str
    preset: str
    claims: tuple[Claim, ...]
    answer: str = ""


def write_claims(path: Path | str, claims: Sequence[Claim], *, experiment: str, preset: str, answer: str = "") -> None:
    """Write claims.json; equal claims give equal bytes.

    Args:
        path: the file.
        claims, experiment, preset, answer: as in :class:`ClaimsFile`.

    Raises:
        ConfigError: where two claims have one id, or a claim was measured with another preset.
        FolderError: where the disk refuses.
    """
    twice = [name for name, num in Counter(claim.id for claim in claims).items() if num > 1]
    others = [claim.id for claim in claims if claim.preset != preset]
    if twice or others:
        raise ConfigError(
            f"claims for {path} with " + (f"ids {twice} twice" if twice else f"another preset than {preset!r}: {others}"),
            expected="one claim an id, each measured with the file's preset",
            do="name each claim once and pass the preset of the run",
        )
    write_json(
        path,
        {
            "schema_version": CLAIMS_SCHEMA_VERSION,
            "experiment": experiment,
            "preset": preset,
            "claims": [_claim_json(claim) for claim in claims],
            **({"answer": answer} if answer else {}),
        },
    )


def read_claims(path: Path | str) -> ClaimsFile:
    """The claims in ``path``.

    Raises:
        ForeignFileError: where the file is missing, damaged or no claims.json of ours, and where a verdict or a note in it does
            not follow from its numbers.
    """
    value = read_json(path)
    try:
        fields = {"schema_version": _is_int, "experiment": _is_text, "preset": _is_text, "claims": _is_list}
        _check_fields(value, fields, {"answer": _is_text})
        if value["schema_version"] != CLAIMS_SCHEMA_VERSION:
            raise ForeignFileError(f"schema version {value['schema_version']}, not {CLAIMS_SCHEMA_VERSION}")
        claims = tuple(_claim_of(entry) for entry in value["claims"])
    except InvariscopeError as error:
        raise ForeignFileError(
            f"{path}, which is no claims.json that can be trusted ({error})",
            expected="the file as invariscope wrote it",
            do="restore it from a copy, or run the experiment again",
        ) from error
    answer = value.get("answer", "")
    return ClaimsFile(experiment=value["experiment"], preset=value["preset"], claims=claims, answer=answer)


def _mark_json(mark: Mark) -> dict[str, JSON]:
    value: dict[str, JSON] = {"kind": mark.kind, "target": mark.target}
    return value if mark.tolerance is None else value | {"tolerance": mark.tolerance}


def _claim_json(claim: Claim) -> dict[str, JSON]:
    return {
        "id": claim.id,
        "statement": claim.statement,
        "source": claim.source,
        "unit": claim.unit,
        "paper": claim.paper,
        "mark": _mark_json(claim.mark),
        "measured": claim.measured,
        "low": claim.low,
        "high": claim.high,
        "num": claim.num,
        "seeds": list(claim.seeds),
        "controls": [
            {
                "name": control.name,
                "value": control.value,
                "low": control.low,
                "high": control.high,
                "mark": None if control.mark is None else _mark_json(control.mark),
            }
            for control in claim.controls
        ],
        "verdict": claim.verdict,
        "note": claim.full_note,
        "figure": claim.figure,
        "preset": claim.preset,
        "by_construction": claim.by_construction,
    }


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_int_or_none(value: Any) -> bool:
    return value is None or _is_int(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_number_or_none(value: Any) -> bool:
    return value is None or _is_number(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _is_ints(value: Any) -> bool:
    return isinstance(value, list) and all(_is_int(entry) for entry in value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _is_anything(value: Any) -> bool:
    return True


_MARK_FIELDS: dict[str, _Check] = {"kind": _is_text, "target": _is_number}
_INTERVAL_FIELDS: dict[str, _Check] = {"low": _is_number_or_none, "high": _is_number_or_none}
_CONTROL_FIELDS: dict[str, _Check] = {
    "name": _is_text,
    "value": _is_number_or_none,
    **_INTERVAL_FIELDS,
    "mark": _is_anything,
}
_CLAIM_FIELDS: dict[str, _Check] = {
    **dict.fromkeys(("id", "statement", "source", "unit", "verdict", "note", "figure", "preset"), _is_text),
    **dict.fromkeys(("paper", "measured"), _is_number_or_none),
    **_INTERVAL_FIELDS,
    "mark": _is_anything,
    "num": _is_int_or_none,
    "seeds": _is_ints,
    "controls": _is_list,
    "by_construction": _is_bool,
}


def _check_fields(value: Any, fields: dict[str, _Check], optional: dict[str, _Check] | None = None) -> None:
    optional = optional or {}
    if not isinstance(value, dict):
        raise ForeignFileError(f"{type(value).__name__} where an object with {', '.join(fields)} belongs")
    missing = [name for name in fields if name not in value]
    unknown = [name for name in value if name not in fields and name not in optional]
    wrong = [name for name, check in (fields | optional).items() if name in value and not check(value[name])]
    for problem, names in (("missing", missing), ("unknown", unknown), ("of the wrong type", wrong)):
        if names:
            raise ForeignFileError(f"{', '.join(names)} {problem} in {value.get('id', value.get('name', 'the object'))!r}")


def _mark_of(value: Any) -> Mark:
    _check_fields(value, _MARK_FIELDS, {"tolerance": _is_number})
    return Mark(**value)


def _control_of(value: Any) -> Control:
    _check_fields(value, _CONTROL_FIELDS)
    return Control(**value | {"mark": None if value["mark"] is None else _mark_of(value["mark"])})


def _claim_of(value: Any) -> Claim:
    _check_fields(value, _CLAIM_FIELDS)
    fields: dict[str, Any] = {name: entry for name, entry in value.items() if name not in ("verdict", "note")}
    fields["mark"] = _mark_of(value["mark"])
    fields["controls"] = tuple(_control_of(entry) for entry in value["controls"])
    claim = Claim(**fields)
    if claim.verdict != value["verdict"]:
        raise ForeignFileError(f"{claim.id} is called {value['verdict']!r}, and its numbers say {claim.verdict!r}")
    return _with_own_note(claim, value["note"])


def _with_own_note(claim: Claim, note: str) -> Claim:
    """``claim`` with the part of ``note`` that was not generated."""
    generated = claim.generated_note
    if not note.endswith(generated):
        raise ForeignFileError(f"{claim.id} does not give the reason for its caveat: {generated}")
    own = note[: len(note) - len(generated)].removesuffix("; ") if generated else note
    return replace(claim, note=own)
