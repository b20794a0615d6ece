"""What accepting a video costs, and what the way through the queue adds to the work itself, over HTTP and Ray."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any, Final

import httpx

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from benchmarks.graph.run import CHUNK_FRAMES, cluster, run_job, speech, wav_16
from kernels.errors import LiveAnchorError

RUNS: Final = 20
SPEECH_S: Final = 2.0
PATIENCE_S: Final = 120.0


def accept(client: httpx.Client, wav: bytes) -> dict[str, Any]:
    """Send one video.

    Raises:
        LiveAnchorError: It was not accepted.
    """
    files = {"audio": ("speech.wav", wav, "audio/wav")}
    answer = client.post("/v1/videos", data={"chunk_frames": str(CHUNK_FRAMES)}, files=files)
    if answer.status_code != 202:
        raise LiveAnchorError(f"{answer.status_code}: {answer.text[:400]}")
    found: dict[str, Any] = answer.json()
    return found


def fetched(client: httpx.Client, video_id: str, clock: Callable[[], float] = time.perf_counter) -> bytes:
    """Wait for a video and fetch its file.

    Raises:
        LiveAnchorError: It failed, or is not there in time.
    """
    deadline = clock() + PATIENCE_S
    with client.stream(
        "GET", f"/v1/videos/{video_id}/events"
    ) as events:  # asking again and again would take the cores it needs
        for line in events.iter_lines():
            if clock() > deadline:
                break
            if not line.startswith("data: "):
                continue
            video = json.loads(line.removeprefix("data: "))
            if video.get("status") == "completed":
                return client.get(video["content_url"]).raise_for_status().content
            if video.get("status") == "failed":
                raise LiveAnchorError(f"a video failed: {video['error']}")
    raise LiveAnchorError(f"a video was not made within {PATIENCE_S:g} s")


def service_records(run: RunInfo, suite: str) -> list[BenchmarkRecord]:
    """Make the same file in turn by `POST /generate` and as a video; the first of each is left out.

    Raises:
        LiveAnchorError: The service failed, or the two files differ in size.
    """
    wav = wav_16(speech(SPEECH_S))
    direct, accepted, through = [], [], []
    with cluster() as url, httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        for _ in range(RUNS + 1):
            job = run_job(url, wav)
            began = time.perf_counter()
            video = accept(client, wav)
            taken = time.perf_counter()
            data = fetched(client, video["id"])
            ended = time.perf_counter()
            if len(data) != job.size_bytes:
                raise LiveAnchorError(f"a video of {len(data)} bytes, and {job.size_bytes} from POST /generate")
            direct.append(job.seconds * 1000)
            accepted.append((taken - began) * 1000)
            through.append((ended - began) * 1000)
    direct, accepted, through = direct[1:], accepted[1:], through[1:]
    whole = sorted(direct)[len(direct) // 2]
    return [
        make_record(run, suite=suite, case="job_accept_p50_ms", unit="ms", samples=accepted, higher_is_better=False),
        make_record(
            run,
            suite=suite,
            case="job_overhead_ms",
            unit="ms",
            samples=[video - file for video, file in zip(through, direct, strict=True)],
            higher_is_better=False,
        ),
        make_record(
            run,
            suite=suite,
            case="job_whole_ms",
            unit="ms",
            samples=through,
            higher_is_better=False,
            baseline="POST /generate with the same speech",
            baseline_value=whole,
        ),
    ]
