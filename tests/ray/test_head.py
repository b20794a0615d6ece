"""The head node of a cluster goes down in the middle of videos: each ends once, with the bytes of an undisturbed run."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from benchmarks.production.heads import head_night


@pytest.mark.nightly("starts a service three times; other processes are killed in tests/unit/benchmarks/production")
@pytest.mark.timeout(3000)
def test_nothing_is_lost_or_made_twice_when_the_head_node_goes_down() -> None:
    with tempfile.TemporaryDirectory(prefix="la-") as folder:  # short, because Ray puts sockets below it
        found = head_night(Path(folder), videos=6, kills=2)
    assert (found.kills, found.lost, found.twice) == (2, 0, 0), found
    assert found.cut_off >= 1, "nothing was in the middle of anything"
