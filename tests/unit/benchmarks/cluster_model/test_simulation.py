"""The model of the service: the same for the same seed, near what was measured, and never letting more in than fits."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from benchmarks.cluster_model.costs import H200, H200_BEFORE, needs
from benchmarks.cluster_model.growth import Growth, grow
from benchmarks.cluster_model.plot import line_chart
from benchmarks.cluster_model.service import Cluster
from benchmarks.simulate_cluster import checks, scaling_table, speak

BEST = Cluster(H200, chunk=5, gather_s=0.03)


def test_the_cost_of_a_session_is_the_sum_that_was_measured() -> None:
    assert H200_BEFORE.session_ms() == pytest.approx(86, rel=0.03) and H200_BEFORE.bound() == pytest.approx(
        11.6, rel=0.03
    )
    assert H200_BEFORE.bound(16) == pytest.approx(16.5, rel=0.02)
    assert H200.motion_ms(1) == 4.05 and H200.motion_ms(16) == 9.09
    assert H200.tokens() == 9 and H200.tokens(4) == 12


def test_the_formula_of_the_page() -> None:
    found = needs(1000, tokens=10)
    assert (found.gpus, found.hosts, found.calls) == (100, 167, 15_000)
    assert found.cores == 500 and found.egress_gbit == 2.6 and found.replicas == 400 + 167 + 4
    assert needs(1000, 10, 0.45).gpus == 45
    assert "| 1000 | 100 | 45 |" in scaling_table(H200, 10)


def test_the_measured_rows_that_the_page_calls_wrong_are_the_ones_that_are() -> None:
    off = {check.name for check in checks() if not check.agrees}
    assert off == {
        "1 GPU, 20 sessions, late",
        "1 GPU, 20 sessions, late or dropped",
        "2 GPUs, renderers on one, 16 sessions, late",
        "2 GPUs, renderers on one, 32 files, frames/s",
    }


def test_equal_seeds_are_equal_and_others_are_not() -> None:
    again = [speak(Cluster(H200_BEFORE), 12, seed, seconds=5.0) for seed in (1, 1, 2)]
    assert again[0] == again[1] != again[2]


def test_windows_that_wait_for_each_other_carry_more_sessions_on_the_same_gpu() -> None:
    alone, together = (speak(one, 13, seconds=10.0) for one in (replace(BEST, gather_s=0.0), BEST))
    assert alone.late > 0.1 and together.late <= 0.01
    assert together.motion_batch > 2 * alone.motion_batch and together.busy < alone.busy


def test_a_second_gpu_carries_as_much_as_the_first_where_sessions_are_placed() -> None:
    placed = speak(replace(BEST, gpus=2), 26, seconds=10.0)
    shared = speak(replace(BEST, gpus=2, placement="shared", routing="calls"), 26, seconds=10.0)
    assert placed.late <= 0.01 < shared.late


@pytest.mark.parametrize("gpus", [1, 3])
def test_offers_in_one_second_take_exactly_the_tokens(gpus: int) -> None:
    tokens = H200.tokens(4)
    found = speak(replace(BEST, gpus=gpus, tokens=tokens), 3 * tokens * gpus, seconds=10.0, over_s=1.0)
    assert found.admitted == tokens * gpus and found.refused == 2 * tokens * gpus
    assert found.late <= 0.01
    flooded = speak(replace(BEST, gpus=gpus), 3 * tokens * gpus, seconds=10.0, over_s=1.0)
    assert flooded.late > 0.3


def test_sets_follow_the_load_and_spare_ones_save_refusals() -> None:
    tight, roomy = (grow(Growth(sets=16, tokens=10, spare=spare, hours=2.0)) for spare in (0, 3))
    assert roomy.refused <= tight.refused and roomy.mean_sets > tight.mean_sets
    assert tight.most <= 16 and 0.4 < tight.used <= 0.9
    drowned = grow(Growth(sets=4, tokens=10, load=3.0, hours=1.0))
    assert drowned.most == 4 and drowned.refused > 0.3


def test_the_chart_is_well_formed_and_has_every_curve() -> None:
    text = line_chart({"a < b": [(0, 0), (1, 5)], "c": [(0, 1), (2, 0)]}, "x & y", "z", "title")
    root = ElementTree.fromstring(text)  # noqa: S314  # our own text
    names = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a < b", "c", "x & y", "z", "title"} <= set(names)
