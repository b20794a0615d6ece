"""The work of a soak: videos, files, live sessions, clients that go away, processes that are killed. Each part is a thread."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import httpx
import numpy as np

from benchmarks.live.rig import ClientProcess, replica_pids
from kernels.errors import LiveAnchorError
from liveanchor.client import Client, ClientError, VideoFailedError

VIDEO_PATIENCE_S: Final = 300.0
TALK_S: Final = 20.0
CANCELLED_SHARE: Final = 0.15
GONE_SHARE: Final = 0.25
STAGES: Final = ("Renderer", "MotionDiffusion", "AudioFeatures")
HOST_SHARE: Final = 0.25
"""Share of the kills that hit a session host; the others hit stages."""


class Load:
    """What happened, by name.

    Args:
        url: Address of the service.
        wav: Speech of the files.
        speech: Path of a file that the live clients say.
        folder: For downloads.
        seed: What happens when is a function of it and of how long things take.
        fault_every_s: Mean seconds between two kills.

    Attributes:
        counts: Videos accepted, made, cancelled and lost; files; sessions; kills.
    """

    def __init__(self, url: str, wav: bytes, speech: Path, folder: Path, seed: int, fault_every_s: float) -> None:
        self._url, self._wav, self._speech, self._folder = url, wav, speech, folder
        self._seed, self._fault_every_s = seed, fault_every_s
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Work until the block ends, then let everything that was begun come to its end.

        Raises:
            LiveAnchorError: A part of the load itself broke.
        """
        broken: list[BaseException] = []

        def guarded(part: Callable[[np.random.Generator], None], number: int) -> None:
            try:
                part(np.random.default_rng((self._seed, number)))
            except BaseException as error:  # noqa: BLE001  # told to the thread that waits
                broken.append(error)
                self._stop.set()

        parts = (self.videos, self.files, self.talks, self.faults)
        threads = [
            threading.Thread(target=guarded, args=(part, number), name=part.__name__, daemon=True)
            for number, part in enumerate(parts)
        ]
        for one in threads:
            one.start()
        try:
            yield
        finally:
            self._stop.set()
            for one in threads:
                one.join(VIDEO_PATIENCE_S + 60)
        if broken:
            raise LiveAnchorError(f"the load broke: {type(broken[0]).__name__}: {broken[0]}") from broken[0]

    def videos(self, draw: np.random.Generator) -> None:
        """Create, now and then cancel, wait, fetch, delete."""
        with Client(self._url) as client:
            while not self._stop.is_set():
                try:
                    video = client.videos.create(audio=self._wav, seed=int(draw.integers(1 << 30)))
                except ClientError:
                    self._note("videos_not_accepted")
                    self._stop.wait(2.0)
                    continue
                self._note("videos_accepted")
                self._note(self._one_video(client, video.id, cancelled=draw.random() < CANCELLED_SHARE))

    def _one_video(self, client: Client, video_id: str, *, cancelled: bool) -> str:
        out = self._folder / "video.mp4"
        try:
            if cancelled:
                client.videos.cancel(video_id)
                client.videos.delete(video_id)
                return "videos_cancelled"
            client.videos.wait(video_id, timeout_s=VIDEO_PATIENCE_S)
            client.videos.download(video_id, out)
            client.videos.delete(video_id)
        except VideoFailedError:
            return "videos_lost"
        except ClientError as error:
            return "videos_lost" if error.code in ("timeout", "video_not_found") else "videos_unasked"
        return "videos_made" if out.stat().st_size else "videos_lost"

    def files(self, draw: np.random.Generator) -> None:
        """Files over an open connection; some clients go away in the middle."""
        with Client(self._url) as client, httpx.Client(timeout=120.0) as http:
            while not self._stop.is_set():
                try:
                    if draw.random() < GONE_SHARE:
                        files, form = {"audio": ("speech.wav", self._wav, "audio/wav")}, {"stream": "true"}
                        with http.stream("POST", f"{self._url}/generate", files=files, data=form) as answer:
                            next(answer.iter_bytes(1024), b"")
                        self._note("files_left")
                        continue
                    client.generate(self._folder / "file.mp4", audio=self._wav)
                    self._note("files_made")
                except (ClientError, httpx.HTTPError):
                    self._note("files_failed")
                    self._stop.wait(2.0)

    def talks(self, draw: np.random.Generator) -> None:
        """Live sessions one after the other; some clients die without a word."""
        while not self._stop.is_set():
            client = ClientProcess(self._url, "--seconds", f"{TALK_S:g}", "--speech", str(self._speech))
            try:
                if draw.random() < GONE_SHARE:
                    self._stop.wait(TALK_S / 2)
                    client.process.send_signal(signal.SIGKILL)
                    client.process.wait()
                    self._note("sessions_left")
                    continue
                client.report(TALK_S + 120)
                self._note("sessions_held")
            except LiveAnchorError:
                self._note("sessions_failed")  # refused, or its host was killed
                self._stop.wait(2.0)
            finally:
                client.process.kill()

    def faults(self, draw: np.random.Generator) -> None:
        """Kill a replica at random times."""
        while not self._stop.wait(float(draw.exponential(self._fault_every_s))):
            host = draw.random() < HOST_SHARE
            name = "SessionHost" if host else STAGES[int(draw.integers(len(STAGES)))]
            if pids := replica_pids(name):
                with suppress(ProcessLookupError):
                    os.kill(pids[0], signal.SIGKILL)
                    self._note("hosts_killed" if host else "stages_killed")

    def _note(self, name: str) -> None:
        with self._lock:
            self.counts[name] += 1
