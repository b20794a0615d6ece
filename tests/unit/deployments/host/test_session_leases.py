"""Stage calls follow the lease of their session."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from deployments.host.live_calls import LiveOffer
from deployments.host.session_leases import SessionLeases
from deployments.host.token_pool import Lease
from pipeline.live.contracts import Drive

OFFER = LiveOffer("s", "v=0", None, 25, Drive.PUSH, echo=False, lease=Lease("s", "a", 1.0))


def test_calls_go_to_the_set_of_the_lease_and_move_with_it() -> None:
    leases, stages = SessionLeases(), SimpleNamespace(set_id="")
    with leases.kept(OFFER):
        assert leases.serve("s", stages) is stages and stages.set_id == "a"
        assert leases.all() == [OFFER.lease]
        leases.renewed([Lease("s", "b", 1.0)])
        assert stages.set_id == "b" and leases.all() == [Lease("s", "b", 1.0)]


def test_a_session_without_a_lease_is_served_by_any_set() -> None:
    leases, stages = SessionLeases(), SimpleNamespace(set_id="old")
    with leases.kept(replace(OFFER, lease=None)):
        assert leases.serve("s", stages).set_id == "" and leases.all() == []


def test_a_session_that_ended_meanwhile_is_not_brought_back() -> None:
    leases = SessionLeases()
    with leases.kept(OFFER):
        leases.end("s")
        leases.renewed([Lease("s", "b", 1.0)])
        assert leases.all() == []


def test_a_session_that_never_began_leaves_no_lease_to_renew() -> None:
    leases, stages = SessionLeases(), SimpleNamespace(set_id="")
    with pytest.raises(ValueError, match="no such avatar"), leases.kept(OFFER):
        leases.serve("s", stages)
        raise ValueError("no such avatar")
    assert leases.all() == []
