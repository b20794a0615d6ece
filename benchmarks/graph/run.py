"""The Ray graph against one process: `python -m benchmarks.graph` makes `results/cpu-2core/graph.json`.

Starts a cluster of its own on this machine, sends file jobs over HTTP like any client, and ends the cluster. Speech is the
committed demo sample, repeated to the length of the job. The long job (10 minutes) measures memory only; `--long-s 0` leaves
it out, `--only memory` runs nothing else. It comes before the parallel jobs, whose load starts replicas that stay for a while.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import av
import httpx
import numpy as np
from scipy.io import wavfile

from benchmarks.core.process_memory import PeakMemory
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.clock import frame_count
from pipeline.media.audio_in import decode_audio
from pipeline.session.local_job import LocalPipeline
from pipeline.types import SAMPLE_RATE_HZ

SUITE: Final = "graph"
DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
SPEECH: Final = Path(__file__).resolve().parents[2] / "docs" / "demo" / "speech.wav"
JOB_S: Final = 10.0
LONG_S: Final = 600.0
RUNS: Final = 3
PARALLEL: Final = 4
CHUNK_FRAMES: Final = 8
START_S: Final = 300.0
GIB, MIB = 2.0**30, 2.0**20


@dataclass(frozen=True)
class Job:
    """Holds the times of a finished file job over HTTP.

    Attributes:
        seconds: Seconds from the request to the last byte.
        first_frame_s: Seconds from the request until the bytes so far decode to a picture; 0 when the answer was not streamed.
        size_bytes: Size of the file in bytes.
        data: The file, where it was to be kept.
    """

    seconds: float
    first_frame_s: float
    size_bytes: int
    data: bytes = field(default=b"", repr=False)


def speech(seconds: float) -> F32:
    """The demo sample cut or repeated to a length."""
    return np.resize(decode_audio(SPEECH).pcm, round(seconds * SAMPLE_RATE_HZ)).astype(np.float32)


def wav_16(pcm: F32) -> bytes:
    """A 16-bit WAV file in memory, what a recorder makes."""
    buffer = BytesIO()
    wavfile.write(buffer, SAMPLE_RATE_HZ, np.round(np.clip(pcm, -1.0, 1.0) * 32767.0).astype(np.int16))
    return buffer.getvalue()


def decodes(data: bytes) -> bool:
    """Whether these first bytes of an mp4 give a picture."""
    try:
        with av.open(BytesIO(data), "r", format="mp4") as container:
            return bool(container.streams.video) and next(iter(container.decode(video=0)), None) is not None
    except av.FFmpegError:
        return False


def run_job(url: str, wav: bytes, *, stream: bool = False, keep: bool = False, **fields: str) -> Job:
    """Send one job and read its whole answer.

    Args:
        url: Address of the service.
        wav: The speech.
        stream: Whether the file is to come while it is made.
        keep: Whether its bytes are wanted.
        fields: Further fields of `POST /generate`.

    Raises:
        LiveAnchorError: The service refused it or failed.
    """
    began = time.perf_counter()
    parts: list[tuple[float, bytes]] = []
    data = {"chunk_frames": str(CHUNK_FRAMES), "stream": str(stream).lower(), **fields}
    files = {"audio": ("speech.wav", wav, "audio/wav")}
    with httpx.stream("POST", f"{url}/generate", data=data, files=files, timeout=None) as answer:  # noqa: S113 - minutes
        if answer.is_error:
            raise LiveAnchorError(f"{answer.status_code}: {answer.read()[:400].decode(errors='replace')}")
        for piece in answer.iter_raw():
            parts.append((time.perf_counter() - began, piece))
    seconds = time.perf_counter() - began
    whole = b"".join(piece for _, piece in parts)
    return Job(seconds, first_picture_s(parts) if stream else 0.0, len(whole), whole if keep else b"")


def first_picture_s(parts: list[tuple[float, bytes]]) -> float:
    """When the bytes received so far first decoded to a picture."""
    received = b""
    for arrived, data in parts:
        received += data
        if decodes(received):
            return arrived
    raise LiveAnchorError("the streamed file never decoded")


@contextmanager
def cluster() -> Iterator[str]:
    """The address of the default application on a private cluster."""
    from serve_app.cluster.own import free_port, private, submit, wait_until_running
    from serve_app.config.declare import fit_to, serve_document
    from serve_app.config.settings import load_config

    with private() as here:
        submit(here, serve_document(fit_to(load_config(), here.gpus), "127.0.0.1", free_port()))
        yield wait_until_running(here, START_S, lambda text: None)


def local_seconds(wav: bytes, runs: int) -> list[float]:
    """The same job in one process, weights and presenter loaded, first run left out."""
    pipeline = LocalPipeline()
    avatar = pipeline.avatar()
    times = []
    with TemporaryDirectory() as folder:
        for _ in range(runs + 1):
            began = time.perf_counter()
            pipeline.generate_file(decode_audio(wav), Path(folder) / "job.mp4", avatar)
            times.append(time.perf_counter() - began)
    pipeline.close()
    return times[1:]


def measure(run: RunInfo, long_s: float) -> Iterator[BenchmarkRecord]:
    """All cases, one after the other."""
    wav = wav_16(speech(JOB_S))
    local = local_seconds(wav, RUNS)
    local_s = float(np.median(local))
    with cluster() as url:
        run_job(url, wav)
        with PeakMemory(os.getpid()) as short_memory:
            files = [run_job(url, wav) for _ in range(RUNS)]
            streams = [run_job(url, wav, stream=True) for _ in range(RUNS)]
        yield make_record(
            run,
            suite=SUITE,
            case="file_job_rtf_10s",
            unit="s/s",
            samples=[job.seconds / JOB_S for job in files],
            higher_is_better=False,
            baseline="the same job in one process (local_job_rtf_10s), same run",
            baseline_value=local_s / JOB_S,
        )
        yield make_record(
            run,
            suite=SUITE,
            case="file_job_first_frame_s",
            unit="s",
            samples=[job.first_frame_s for job in streams],
            higher_is_better=False,
            baseline="waiting for the finished file, same run",
            baseline_value=float(np.median([job.seconds for job in files])),
        )
        chunks = -(-frame_count(round(JOB_S * SAMPLE_RATE_HZ), 25) // CHUNK_FRAMES)
        yield make_record(
            run,
            suite=SUITE,
            case="graph_overhead_ms_per_chunk",
            unit="ms",
            samples=[1000.0 * (job.seconds - local_s) / chunks for job in files],
            higher_is_better=False,
        )
        yield make_record(
            run,
            suite=SUITE,
            case="file_job_peak_pss_gib",
            unit="GiB",
            samples=[short_memory.peak_bytes / GIB],
            higher_is_better=False,
        )
        if long_s:
            yield _growth(run, url, long_s, short_memory.peak_bytes)
        began = time.perf_counter()
        with ThreadPoolExecutor(PARALLEL) as pool:
            list(pool.map(lambda _: run_job(url, wav), range(PARALLEL)))
        yield make_record(
            run,
            suite=SUITE,
            case="parallel_jobs_x_realtime",
            unit="x",
            samples=[PARALLEL * JOB_S / (time.perf_counter() - began)],
            higher_is_better=True,
            baseline="one job at a time, same run",
            baseline_value=JOB_S / float(np.median([job.seconds for job in files])),
        )


def memory_only(run: RunInfo, long_s: float) -> Iterator[BenchmarkRecord]:
    """`file_job_pss_growth_mib` alone."""
    wav = wav_16(speech(JOB_S))
    with cluster() as url:
        run_job(url, wav)
        with PeakMemory(os.getpid()) as short_memory:
            for _ in range(RUNS):
                run_job(url, wav)
                run_job(url, wav, stream=True)
        yield _growth(run, url, long_s, short_memory.peak_bytes)


def _growth(run: RunInfo, url: str, long_s: float, short_peak: int) -> BenchmarkRecord:
    with PeakMemory(os.getpid()) as memory:
        job = run_job(url, wav_16(speech(long_s)))
    return make_record(
        run,
        suite=SUITE,
        case="file_job_pss_growth_mib",
        unit="MiB",
        samples=[(memory.peak_bytes - short_peak) / MIB],
        higher_is_better=False,
        floor_value=job.size_bytes / MIB,
    )


def main(arguments: list[str] | None = None) -> int:
    """Run and write the records; 0 done, 1 failure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument(
        "--long-s", type=float, default=LONG_S, help="seconds of speech of the long job; 0 leaves it out"
    )
    parser.add_argument("--only", choices=("memory",), help="the long job alone")
    options = parser.parse_args(arguments)
    run = describe_run("python -m benchmarks.graph")
    try:
        for record in (memory_only if options.only else measure)(run, options.long_s):
            write_records(options.out, [record])
            print(format_table([record]), flush=True)
    except (LiveAnchorError, httpx.HTTPError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0
