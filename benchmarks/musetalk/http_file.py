"""27 s of speech over HTTP: `python -m benchmarks.musetalk.http_file`; rows `http_27s_*` of `results/h200/musetalk.json`.

Starts `serve_config.yaml` with the family on a cluster of its own, with weights of the formula and a clip of 1080x1920 of which
everything moves, posts the speech to `POST /generate`, and takes the time to the last byte, once per encoder, for each of which Ray
Serve replaces the replicas. The bound of each row is the encoder alone: the file's own pictures, decoded before, are written again
by the same writer in this process. `--sessions N ...` tries so many live sessions between the first encoder and the second, as
`benchmarks.capacity` does, into its results file. `--small` is a dry run with narrow networks without a GPU.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import av
import httpx
import numpy as np
import torch

from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.graph import gpu_service as graph
from benchmarks.graph.capacity_cases import COUNT_S, SESSIONS_PER_HOST, SETTLE_S, Case, plan_of
from benchmarks.graph.run import Job, run_job, speech, wav_16
from benchmarks.musetalk.checkpoint_folder import write_folder
from benchmarks.musetalk.news_clip import FRAMES, moving_avatar, news_speech
from benchmarks.musetalk.run import OUT, SUITE
from engines.musetalk.version import latents_version
from kernels.errors import LiveAnchorError
from pipeline.avatars.store import AvatarStore
from pipeline.config import EncoderSettings
from pipeline.families import find_family
from pipeline.media.encoder import VideoFormat
from pipeline.media.encoder_nvenc import probe_nvenc
from pipeline.media.mp4 import MemoryMp4Writer
from pipeline.types import SAMPLES_PER_FRAME, Nv12Canvas

COMMAND: Final = "python -m benchmarks.musetalk.http_file"
FAMILY: Final = "musetalk"
PUBLISHED_S: Final = 1.911
SPREAD: Final = 0.06
"""Standard deviation of the painted colours: a face's; under the formula alone they are noise that no encoder is made for."""
SIZE: Final = (1080, 1920)
SMALL: Final = (360, 640)
THREADS: Final = 16
LOOKAHEAD: Final = 10
CREDITS: Final = 16
RUNS: Final = 3
CLIP_FRAMES: Final = 25
REPLACED_S: Final = 240.0


@dataclass(frozen=True)
class Variant:
    """An encoder.

    Attributes:
        case: Name of its row, without the unit.
        encoder: Settings of the group `encoder`.
        published: Whether the published time is of this encoder.
    """

    case: str
    encoder: dict[str, Any]
    published: bool = False


def variants(threads: int = THREADS, lookahead: int = LOOKAHEAD) -> list[Variant]:
    """The encoders that can be measured on this machine; libx264 with so many threads, holding back so many frames."""
    x264 = {"prefer": "x264", "threads": min(threads, os.cpu_count() or 1), "file_lookahead_frames": lookahead}
    found = [
        Variant("http_27s", {**x264, "file_preset": "ultrafast", "file_crf": 23}, published=True),
        Variant("http_27s_crf18", {**x264, "file_preset": "ultrafast", "file_crf": 18}),
        Variant("http_27s_veryfast_crf20", {**x264, "file_preset": "veryfast", "file_crf": 20}),
    ]
    problem = probe_nvenc()
    if problem is None:
        return [*found, Variant("http_27s_nvenc", {"prefer": "nvenc", "nvenc_file_qp": 23})]
    print(f"no row for NVENC: {problem}", flush=True)
    return found


def document_of(weights: Path, port: int, gpus: float, encoder: dict[str, Any], hosts: int = 1) -> dict[str, Any]:
    """`serve_config.yaml` for one file at a time: an encoder with many threads, and as many chunks in work as fill the renderer."""
    document = graph.shipped_document(FAMILY, weights, port, gpus)
    arguments = document["applications"][0]["args"]
    arguments["encoder"] = encoder
    arguments["session"] = {**arguments.get("session", {}), "file_credits": CREDITS}
    for one in document["applications"][0]["deployments"]:
        if one["name"] == "SessionHost":
            one["autoscaling_config"]["min_replicas"] = hosts
            one["graceful_shutdown_timeout_s"] = 5
        one["autoscaling_config"]["max_replicas"] = one["autoscaling_config"]["min_replicas"]
    return document


class Measured:
    """The service, and what is asked of it.

    Args:
        run: Machine, commit and day.
        service: The running application.
        avatar_id: The clip.
        frames: Pictures of the file.
        runs: How often it is made per encoder, after once that is not counted.
    """

    def __init__(self, run: RunInfo, service: graph.Service, avatar_id: str, frames: int, runs: int) -> None:
        self._run, self._service = run, service
        self._avatar_id, self._frames, self._runs = avatar_id, frames, runs
        self._wav = wav_16(news_speech()[: frames * SAMPLES_PER_FRAME])

    def rows(self, variant: Variant) -> Iterator[BenchmarkRecord]:
        """Time and size of one encoder's files."""
        jobs = [self._job() for _ in range(1 + self._runs)][1:]
        print(f"{variant.case}: {', '.join(f'{job.seconds:.3f}' for job in jobs)} s", flush=True)
        alone = encoder_alone_s(jobs[-1].data, variant.encoder, self._frames)
        yield self._row(
            f"{variant.case}_s",
            "s",
            [job.seconds for job in jobs],
            floor_value=alone,
            baseline="published, another GPU" if variant.published else None,
            baseline_value=PUBLISHED_S if variant.published else None,
        )
        yield self._row(f"{variant.case}_mb", "MB", [jobs[-1].size_bytes / 1e6])

    def switch(self, document: dict[str, Any]) -> None:
        """Give the service another document; returns when its hosts are new and it is ready."""
        from serve_app.cluster.own import submit, wait_until_running

        cluster, before = self._service.cluster, host_pids()
        submit(cluster, document)
        graph.wait_until(lambda: bool(host_pids()) and not host_pids() & before, REPLACED_S)
        wait_until_running(cluster, REPLACED_S)
        graph.wait_until(lambda: is_ready(self._service.url), REPLACED_S)

    def _job(self) -> Job:
        return run_job(self._service.url, self._wav, keep=True, avatar_id=self._avatar_id)

    def _row(self, case: str, unit: str, samples: list[float], **more: Any) -> BenchmarkRecord:
        return make_record(
            self._run, suite=SUITE, case=case, unit=unit, samples=samples, higher_is_better=False, **more
        )


def host_pids() -> set[int]:
    """Processes of the session hosts."""
    from benchmarks.live.rig import replica_pids

    return set(replica_pids("SessionHost"))


def is_ready(url: str) -> bool:
    """Whether the service says so; not while the replica that is asked goes away."""
    try:
        return httpx.get(f"{url}/readyz", timeout=30).is_success
    except httpx.HTTPError:
        return False


def encoder_alone_s(data: bytes, encoder: dict[str, Any], frames: int) -> float:
    """Seconds that the encoder itself takes for a file's pictures; checks that all of them are there.

    Raises:
        LiveAnchorError: The file has another number of pictures.
    """
    with av.open(io.BytesIO(data), "r") as container:
        decoded = [np.asarray(frame.to_ndarray(format="nv12"), np.uint8) for frame in container.decode(video=0)]
    if len(decoded) != frames:
        raise LiveAnchorError(f"the file has {len(decoded)} pictures, not {frames}")
    height, width = decoded[0].shape[0] * 2 // 3, decoded[0].shape[1]
    settings = EncoderSettings.model_validate(encoder)
    with MemoryMp4Writer(VideoFormat(width, height, 25), None, settings, frames=frames) as writer:
        began = time.perf_counter()
        for picture in decoded:
            writer.write(Nv12Canvas(picture[:height], picture[height:]))
        writer.finish()
        return time.perf_counter() - began


def live_rows(run: RunInfo, url: str, folder: Path, chosen: argparse.Namespace) -> list[BenchmarkRecord]:
    """How many live sessions are carried, as `benchmarks.capacity` finds out."""
    small, (settle, counted) = bool(chosen.small), (2.0, 4.0) if chosen.small else (chosen.settle_s, COUNT_S)
    plan = plan_of(FAMILY, 1, small=small, settle_s=settle, count_s=counted, counts=chosen.sessions, alone=False)
    spoken = folder / "speech.wav"
    spoken.write_bytes(wav_16(speech(settle + counted + 60.0)))
    command = f"python -m benchmarks.capacity --gpus 1 --family {FAMILY}"
    return Case(replace(run, command=command), plan, url, spoken, {}).sessions()


def measure(run: RunInfo, home: Path, weights: Path, chosen: argparse.Namespace) -> None:
    """All encoders, one after the other, and live sessions where they are asked for; rows are written as they come."""
    from serve_app.cluster.own import private

    small = bool(chosen.small)
    made, _ = moving_avatar(
        CLIP_FRAMES // 3 if small else CLIP_FRAMES, latents_version(weights), SMALL if small else SIZE
    )
    store = AvatarStore(home / "avatars")
    avatar = store.put(made)
    find_family(FAMILY).avatar_maker(weights).default(store)  # here and now: else every replica reads it when it starts
    frames, runs, hosts = (
        (20, 1, 1) if small else (FRAMES, RUNS, -(-max(chosen.sessions, default=1) // chosen.per_host))
    )
    first, *others = variants(chosen.threads, chosen.lookahead)
    others = [] if chosen.first_only else others

    def keep(out: Path, rows: list[BenchmarkRecord]) -> None:
        write_records(out, rows)
        print(format_table(rows), flush=True)

    with private() as cluster:

        def make(port: int) -> dict[str, Any]:
            return document_of(weights, port, cluster.gpus, first.encoder, hosts)

        with graph.service(cluster, FAMILY, weights, make=make) as service:
            print(f"ready after {service.ready_s:.1f} s", flush=True)
            measured, port = Measured(run, service, avatar.avatar_id, frames, runs), int(service.url.rpartition(":")[2])
            keep(chosen.out, list(measured.rows(first)))
            if chosen.sessions:
                keep(chosen.sessions_out, live_rows(run, service.url, home, chosen))
            for variant in others:
                measured.switch(document_of(weights, port, cluster.gpus, variant.encoder))
                keep(chosen.out, list(measured.rows(variant)))


def main(arguments: list[str] | None = None) -> int:
    """Measure and publish; 0 done, 1 where something failed, 2 bad usage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--weights", type=Path, help="checkpoints; written there where the folder is not there yet")
    parser.add_argument("--threads", type=int, default=THREADS, help="of libx264")
    parser.add_argument("--lookahead", type=int, default=LOOKAHEAD, help="frames that libx264 may hold back")
    parser.add_argument("--first-only", action="store_true", help="the published encoder alone")
    parser.add_argument(
        "--sessions", type=int, nargs="*", default=[], help="numbers of live sessions to try, ascending"
    )
    parser.add_argument("--per-host", type=int, default=SESSIONS_PER_HOST, help="live sessions per host, at most")
    parser.add_argument("--settle-s", type=float, default=SETTLE_S, help="before sessions count")
    parser.add_argument("--sessions-out", type=Path, default=RESULTS_DIR / "h200" / "capacity.json")
    parser.add_argument("--small", action="store_true", help="a dry run; not for publishing")
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    chosen = parser.parse_args(arguments)
    cuda = torch.cuda.is_available()
    published = chosen.out.resolve() == OUT.resolve() or (
        chosen.sessions and chosen.sessions_out.resolve().parent == OUT.resolve().parent
    )
    if published and (chosen.small or not cuda or chosen.settle_s < SETTLE_S):
        parser.error(
            "a small or short run, or one on a CPU, is not for publishing: name another --out and --sessions-out"
        )
    run = describe_run(COMMAND, device="cuda:0" if cuda else "cpu", commit=chosen.commit)
    with TemporaryDirectory(prefix="la-http-") as folder:
        home = Path(folder)
        os.environ["LIVEANCHOR_HOME"] = folder
        weights = chosen.weights or home / "checkpoints"
        if not weights.exists():
            began = time.perf_counter()
            write_folder(weights, narrow=chosen.small, parser=False, spread=SPREAD)
            print(f"weights written in {time.perf_counter() - began:.1f} s", flush=True)
        try:
            measure(run, home, weights, chosen)
        except (LiveAnchorError, httpx.HTTPError, RuntimeError, OSError) as error:
            print(f"NOT MEASURED: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
