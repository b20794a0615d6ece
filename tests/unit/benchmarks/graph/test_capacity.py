"""The capacity benchmark without Ray: what counts, how the most is found, bounds, baselines, resuming."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.serve")
pytest.importorskip("aiortc")

from benchmarks import capacity
from benchmarks.capacity import document_of, done_before, with_baseline
from benchmarks.core.record import BenchmarkRecord, make_record, write_records
from benchmarks.core.run_info import describe_run
from benchmarks.graph.capacity_cases import plan_of
from benchmarks.graph.capacity_run import Spent, Steady, bound, late_share, most, p99_ms, wait_for
from benchmarks.graph.light_clients import PictureCounter
from kernels.errors import InvalidInputError
from tests.support.manual_clock import ManualClock

COMMIT = "0123abc"


def steady(count: int, late: float = 0.0, p99: float = 45.0, admitted: int | None = None) -> Steady:
    taken = count if admitted is None else admitted
    return Steady(count, taken, [0.0] * (taken - 1) + [late], [40.0] * (taken - 1) + [p99], 20.0)


@pytest.mark.parametrize(
    ("found", "counts"),
    [
        (steady(8), True),
        (steady(8, late=0.01, p99=60.0), True),
        (steady(8, late=0.011), False),
        (steady(8, p99=61.0), False),
        (steady(8, admitted=7), False),
        (Steady(2, 2, [0.0], [40.0, 40.0], 20.0), False),
        (Steady(1, 1, [], [], 20.0), False),
    ],
)
def test_every_session_that_was_offered_must_be_in_time(found: Steady, counts: bool) -> None:
    assert found.counts is counts


def test_the_most_is_found_upwards_and_a_failure_is_tried_twice() -> None:
    tried: list[int] = []
    flaky = {12: iter([False, True])}

    def run(count: int) -> Steady:
        tried.append(count)
        good = next(flaky[count]) if count in flaky else count < 14
        return steady(count, late=0.0 if good else 0.5)

    kept: list[int] = []
    assert most((1, 8, 12, 14, 16), run, lambda count, found: kept.append(count)) == 12
    assert tried == kept == [1, 8, 12, 12, 14, 14]
    assert most((4,), lambda count: steady(count, late=1.0), lambda count, found: None) == 0


@pytest.mark.parametrize(
    ("came", "waited_s"),
    [([0, 2, 8], 1.0), ([0, 3, 5], 6.0), ([0] * 9 + [8], 4.5), ([], 60.0)],
    ids=["all come", "three are refused", "they come late", "nobody comes"],
)
def test_who_was_refused_is_not_waited_for(came: list[int], waited_s: float) -> None:
    clock = ManualClock(10.0)
    seen = iter(came)
    last = [0]

    def here() -> int:
        last[0] = next(seen, last[0])
        return last[0]

    def pause(seconds: float) -> None:
        clock.now += seconds

    wait_for(8, here, clock, pause)
    assert clock.now - 10.0 == pytest.approx(waited_s)


def test_late_pictures_are_held_or_left_out_and_nothing_shown_is_all_late() -> None:
    before = {"frames": 100, "frames_repeated": 7, "frames_dropped": 1}
    after = {"frames": 200, "frames_repeated": 9, "frames_dropped": 2}
    assert late_share(before, after) == pytest.approx(0.03)
    assert late_share(before, before) == 1.0
    assert late_share(before, {**after, "frames_repeated": 500}) == 1.0


def test_intervals_count_from_the_moment_on_that_is_looked_at() -> None:
    assert p99_ms([0.0, 5.0, 5.04, 5.08, 5.12], 5.0) == pytest.approx(40.0)
    assert p99_ms([0.0, 1.0], 0.5) == float("inf")


def test_the_bound_takes_lone_times_and_what_batches_save() -> None:
    alone = Steady(
        1,
        1,
        [0.0],
        [40.0],
        10.0,
        {"audio_features": Spent(50, 50, 115), "motion_diffusion": Spent(50, 50, 200), "renderer": Spent(50, 50, 560)},
    )
    assert bound(alone, alone, 1) == pytest.approx(1000 / (11.5 + 20 + 56))
    loaded = Steady(
        12,
        12,
        [],
        [],
        10.0,
        {"audio_features": Spent(600, 150, 1), "motion_diffusion": Spent(600, 150, 1), "renderer": Spent(600, 600, 1)},
    )
    batched = bound(alone, loaded, 2)
    assert batched is not None and 2 * 1000 / 87.5 < batched < 2 * 1000 / 56
    assert bound(alone, steady(3), 1) is None, "stages that said nothing bound nothing"


def row(case: str, value: float, commit: str = COMMIT) -> BenchmarkRecord:
    run = describe_run(capacity.COMMAND, commit=commit)
    return make_record(run, suite="capacity", case=case, unit="sessions", samples=[value], higher_is_better=True)


def test_rows_of_several_gpus_stand_beside_the_one_gpu_row_of_their_commit() -> None:
    known = [row("ditto_sessions_1gpu", 14), row("ditto_files_fps_1gpu", 380, "fedcba9")]
    made = with_baseline([row("ditto_sessions_2gpu", 27), row("ditto_files_fps_2gpu", 700), row("ready_s", 20)], known)
    assert made[0].baseline_value == 14 and made[0].ratio == pytest.approx(27 / 14)
    assert made[1].baseline is None, "measured at another commit"
    assert made[2].baseline is None


def test_a_case_of_the_same_commit_is_not_measured_again(tmp_path: Path) -> None:
    out, raw = tmp_path / "capacity.json", tmp_path / "raw.json"
    raw.write_text(json.dumps({"commit": COMMIT, "done": ["files"]}))
    assert done_before(out, raw, COMMIT) == set(), "the rows themselves are gone"
    write_records(out, [row("ditto_files_fps_1gpu", 380)])
    assert done_before(out, raw, COMMIT) == {"files"}
    assert done_before(out, raw, "fedcba9") == done_before(out, raw, "unknown") == set()
    raw.write_text(json.dumps({"commit": f"{COMMIT}-dirty", "done": ["files"]}))
    assert done_before(out, raw, f"{COMMIT}-dirty") == set()


def test_the_document_has_hosts_for_the_sessions_and_a_set_for_every_gpu() -> None:
    plan = plan_of("ditto", 2, small=False, settle_s=60, count_s=20, counts=(8, 20))
    assert plan.counts == (1, 8, 20)
    found = {one["name"]: one for one in document_of(plan, Path("w"), 1, 2.0)["applications"][0]["deployments"]}
    assert found["SessionHost"]["autoscaling_config"]["min_replicas"] == 4
    scaling = found["Renderer"]["autoscaling_config"]
    assert scaling["min_replicas"] == scaling["max_replicas"] == 2


@pytest.mark.parametrize(("counts", "count_s"), [((8, 4), 20.0), ((0, 4), 20.0), ((4, 4), 20.0), ((4,), 1.0)])
def test_a_plan_that_makes_no_sense_is_refused(counts: tuple[int, ...], count_s: float) -> None:
    with pytest.raises(InvalidInputError, match="--count"):
        plan_of("mini", 1, small=True, settle_s=1, count_s=count_s, counts=counts)


@pytest.mark.parametrize("options", [["--small"], ["--settle-s", "5"]])
def test_a_run_that_is_not_for_publishing_names_another_file(options: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        capacity.main(options)
    assert ended.value.code == 2


def test_pictures_are_counted_once_by_their_last_packet() -> None:
    class Receiver:
        def __init__(self) -> None:
            self._RTCRtpReceiver__remote_streams: dict[int, Any] = {}

    class Packet:
        def __init__(self, sequence: int, timestamp: int, marker: int) -> None:
            self.ssrc, self.sequence_number, self.timestamp, self.marker = 7, sequence, timestamp, marker
            self.payload = b"x"

    async def go() -> int:
        receiver: Any = Receiver()
        counter = PictureCounter(receiver)
        for packet in (Packet(1, 0, 0), Packet(2, 0, 1), Packet(2, 0, 1), Packet(3, 3600, 1), Packet(4, 7200, 0)):
            await receiver._handle_rtp_packet(packet, 0)
        assert receiver._RTCRtpReceiver__remote_streams[7].packets_received == 5
        return len(counter.complete_at)

    assert asyncio.run(go()) == 2
