"""The table of problems: every code that callers can meet is in it, says what to do, and is the page in the docs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import deployments.graph.errors
import pipeline.media.results_store
import serve_app.http.problems.errors
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.avatars.portrait_errors import PortraitCode
from serve_app.http.problems.kinds import KINDS
from serve_app.http.problems.page import problem_page
from serve_app.http.problems.translate import kind_of, problem_response, shown
from tests.support.paths import ROOT


def _all_errors(root: type[LiveAnchorError] = LiveAnchorError) -> Iterator[type[LiveAnchorError]]:
    for one in root.__subclasses__():
        yield one
        yield from _all_errors(one)


def test_every_code_that_callers_can_meet_is_in_the_table() -> None:
    assert deployments.graph.errors and pipeline.media.results_store and serve_app.http.problems.errors
    packages = (
        "kernels.errors",
        "pipeline.media.audio_errors",
        "pipeline.avatars.store",
        "pipeline.media.results_store",
        "serve_app.http",
    )
    for one in _all_errors():
        if one.__module__.startswith(packages):
            assert one.code in KINDS, one
    for code in PortraitCode.__args__:  # type: ignore[attr-defined]
        assert code in KINDS
    for code, kind in KINDS.items():
        assert 400 <= kind.status < 600 and kind.title
        assert len(kind.meaning) > len(kind.title) and kind.meaning.endswith((".", ")")), f"{code}: no advice"
        assert kind.meaning.count("`") % 2 == 0 and "|" not in kind.meaning, code
        assert bool(kind.detail) == (kind.status >= 500), f"{code}: our own failures are told in words that we chose"


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
