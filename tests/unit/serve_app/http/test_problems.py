"""The table of problems: every code that callers can meet is in it, says what to do, and is the page in the docs."""

from __future__ import annotations

import ast
import errno
import json
from typing import Any, NamedTuple

import pytest

from engines.weights.errors import WeightsStorageError
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.avatars.manifest import BundleError, BundleSchemaError, BundleStorageError
from pipeline.avatars.portrait_errors import PortraitCode
from pipeline.store_error import store_error
from serve_app.http.problems.faults import FAULTS
from serve_app.http.problems.kinds import KINDS
from serve_app.http.problems.page import problem_page
from serve_app.http.problems.translate import kind_of, problem_response, shown
from tests.support.paths import ROOT


class ErrorClass(NamedTuple):
    """An error class as the source says it."""

    bases: tuple[str, ...]
    own_code: str | None
    retryable: bool | None


def _classes() -> dict[str, ErrorClass]:
    """Every class in the layers that HTTP stands on, by name, read from the source: some modules need what is not installed."""
    found: dict[str, ErrorClass] = {}
    for package in ("kernels", "engines", "pipeline", "deployments", "serve_app/http", "serve_app/config"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    bases = tuple(base.id for base in node.bases if isinstance(base, ast.Name))
                    code, retryable = _constant(node, "code"), _constant(node, "retryable")
                    found[node.name] = ErrorClass(bases, code, retryable)
    return found


def _constant(node: ast.ClassDef, name: str) -> Any:
    for line in node.body:
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Name) and target.id == name and isinstance(line.value, ast.Constant):  # type: ignore[attr-defined]
            return line.value.value  # type: ignore[attr-defined]
    return None


def _errors() -> dict[str, tuple[str, bool, bool]]:
    """Every error class: its code, whether the caller's input is at fault, whether the same call may succeed later."""
    classes = _classes()

    def line_of(name: str) -> list[str]:
        bases = [base for base in classes[name].bases if base in classes]
        return [name, *(above for base in bases for above in line_of(base))]

    found = {}
    for name in classes:
        line = line_of(name)
        if "LiveAnchorError" in line:
            code = next(classes[one].own_code for one in line if classes[one].own_code is not None)
            retryable = next(classes[one].retryable for one in line if classes[one].retryable is not None)
            found[name] = (str(code), "InvalidInputError" in line, bool(retryable))
    return found


def test_every_error_that_a_route_can_meet_has_an_entry_with_a_sensible_status() -> None:
    errors = _errors()
    assert len(errors) > 60 and errors["BundleStorageError"] == ("avatar_storage", False, False)
    assert errors["TooManyViewersError"] == ("too_many_viewers", False, True)
    for name, (code, callers, retryable) in errors.items():
        assert (code in KINDS) != (code in FAULTS), f"{name}: {code} is in none of the two tables, or in both"
        if code in FAULTS:
            continue
        status = KINDS[code].status
        if callers:
            assert 400 <= status < 500, f"{name}: {status} for what the caller has sent"
        elif retryable:
            assert status in (503, 507), f"{name}: {status} for what may work later"
        else:
            assert status in (404, 409, 410, 500, 501, 502, 507), f"{name}: {status}"
        if code.endswith(("_storage", "_full")) and not callers:
            assert status == 507, f"{name}: no room is told as {status}"
    assert {code for code, *_ in errors.values()} >= FAULTS, "codes that nothing raises"


def test_faults_of_ours_are_never_told_as_the_callers() -> None:
    from pipeline.stages import CarryError

    found = json.loads(problem_response(CarryError("carry", "row 3", "row 4"), "request-1", 5).body)
    assert (found["code"], found["status"]) == ("internal_error", 500) and "carry" not in json.dumps(found)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BundleStorageError("/srv/secret/avatars", "cannot be written (No space left on device)"), 507),
        (store_error("s3://secret/avatars", OSError(errno.ENOSPC, "No space left on device")), 507),
        (store_error("/srv/secret/results", OSError(errno.EDQUOT, "Disk quota exceeded")), 507),
        (store_error("/srv/secret/results", OSError(errno.EIO, "Input/output error")), 503),
        (WeightsStorageError("face", "/srv/secret cannot be written"), 507),
        (BundleError("/srv/secret/manifest.json", "is no JSON"), 500),
        (BundleSchemaError("/srv/secret/manifest.json", "schema 7"), 409),
    ],
)
def test_trouble_with_a_store_is_told_in_words_that_name_no_path(error: LiveAnchorError, status: int) -> None:
    found = json.loads(problem_response(error, "request-1", 5).body)
    assert (found["status"], found["code"]) == (status, error.code)
    assert "secret" not in json.dumps(found) and len(found["detail"]) > 30


def test_every_entry_says_what_to_do() -> None:
    for code in PortraitCode.__args__:  # type: ignore[attr-defined]
        assert code in KINDS
    for code, kind in KINDS.items():
        assert 400 <= kind.status < 600 and kind.title
        assert len(kind.meaning) > len(kind.title) and kind.meaning.endswith((".", ")")), f"{code}: no advice"
        assert kind.meaning.count("`") % 2 == 0 and "|" not in kind.meaning, code
        assert kind.detail or kind.status < 500, f"{code}: our own failures are told in words that we chose"


def test_errors_that_the_table_does_not_know() -> None:
    class New(InvalidInputError):
        code = "brand_new"

    class Later(LiveAnchorError):
        code = "some_outage"
        retryable = True

    assert kind_of(New("f", "g", "a")).status == 422
    assert kind_of(Later()).status == 503 and kind_of(LiveAnchorError()).status == 500
    for error, code in (
        (New("f", "g", "a"), "brand_new"),
        (Later(), "not_ready"),
        (LiveAnchorError(), "internal_error"),
    ):
        found = json.loads(problem_response(error, "request-1", 5).body)
        assert found["code"] == code and found["status"] == kind_of(error).status


def test_what_is_shown_is_clean_and_short() -> None:
    assert shown("a\x00b\u202ec\nd") == "a�b�c�d"
    assert len(shown("x" * 10_000)) == 200


def test_the_page_of_problems_is_the_table() -> None:
    written = (ROOT / "docs" / "problems.md").read_text(encoding="utf-8")
    assert written == problem_page(), "python -m serve_app.http.problems.page > docs/problems.md"
