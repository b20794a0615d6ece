"""Uploads that travel without a copy."""

from __future__ import annotations

import copy

import pytest

from deployments.graph.payload import Payload


def test_it_arrives() -> None:
    there = copy.deepcopy(Payload(b"speech"))
    assert bytes(there.view) == b"speech" and len(there) == 6
    assert bytes(Payload(b"").view) == b""


def test_the_bytes_are_not_copied() -> None:
    data = bytearray(b"x" * 1000)
    payload = Payload(data)
    data[0] = ord("y")
    assert payload.view[0] == ord("y")


def test_released_bytes_are_free() -> None:
    data = bytearray(b"speech")
    payload = Payload(data)
    with pytest.raises(BufferError):
        data.extend(b"more")
    payload.release()
    payload.release()
    data.extend(b"more")
    assert len(payload) == 0 and payload.view.nbytes == 0
