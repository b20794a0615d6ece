"""Any bytes at all as a body: fields, or one of our own refusals; never another exception, never more kept than was allowed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.requests import Request

from kernels.errors import LiveAnchorError
from pipeline.config import SessionSettings
from serve_app.http.body.json_body import parse_json
from serve_app.http.body.multipart import MAX_TEXT_BYTES, read_multipart
from serve_app.http.body.pieces import BodyLimits, RawForm
from serve_app.http.capacity import UploadBudget
from serve_app.http.files.fields import JOB_SHAPE, job_form

LIMIT = 4096
FIELDS = [*JOB_SHAPE.files, *JOB_SHAPE.values]
GOOD = (
    b'--b\r\nContent-Disposition: form-data; name="audio"; filename="a.wav"\r\n\r\nRIFFdata\r\n'
    b'--b\r\nContent-Disposition: form-data; name="fps"\r\n\r\n50\r\n'
    b'--b\r\nContent-Disposition: form-data; name="avatar_id"\r\n\r\n\r\n--b--\r\n'
)


def read(pieces: Sequence[bytes], budget: UploadBudget) -> RawForm:
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def receive() -> dict[str, object]:
        return messages.pop(0)

    scope = {"type": "http", "method": "POST", "headers": [(b"content-type", b"multipart/form-data; boundary=b")]}

    async def go() -> RawForm:
        with budget.hold() as hold:
            return await read_multipart(Request(scope, receive), JOB_SHAPE, BodyLimits(LIMIT, 5, 5), hold)

    return asyncio.run(go())


def cut(data: bytes, at: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted({one % (len(data) + 1) for one in at}), len(data)]
    return [data[a:b] for a, b in zip(edges, edges[1:], strict=False)]


@settings(max_examples=80, deadline=None)
@given(at=st.lists(st.integers(0, 10**6), max_size=12))
def test_pieces_may_end_anywhere(at: list[int]) -> None:
    form = read(cut(GOOD, at), UploadBudget(100))
    assert form.files["audio"].data == b"RIFFdata" and form.values == {"fps": "50", "avatar_id": ""}
    assert job_form(form, SessionSettings()).session.fps == 50


@settings(max_examples=150, deadline=None)
@given(
    changes=st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 20), st.binary(max_size=24)), min_size=1, max_size=4
    ),
    at=st.lists(st.integers(0, 10**6), max_size=4),
)
def test_a_damaged_form_is_a_form_or_a_refusal(changes: list[tuple[int, int, bytes]], at: list[int]) -> None:
    data = GOOD
    for place, length, new in changes:
        start = place % (len(data) + 1)
        data = data[:start] + new + data[start + length :]
    budget = UploadBudget(64)
    try:
        form = read(cut(data, at), budget)
        job_form(form, SessionSettings())
    except LiveAnchorError:
        return
    finally:
        assert budget.held == 0
    assert all(len(file.data) <= 64 for file in form.files.values())
    assert all(len(str(value)) <= MAX_TEXT_BYTES for value in form.values.values())


@settings(max_examples=150, deadline=None)
@given(
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from([*JOB_SHAPE.files, *JOB_SHAPE.values]), inner)
            ),
            max_leaves=6,
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_json_is_a_job_or_a_refusal(body: bytes) -> None:
    try:
        job_form(parse_json(body, JOB_SHAPE), SessionSettings())
    except LiveAnchorError as refused:
        assert str(refused)
