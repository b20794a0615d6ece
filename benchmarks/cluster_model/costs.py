"""What a session costs a set of stages, and the arithmetic of a cluster that follows from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

FRAME_S: Final = 0.04
LOAD: Final = 0.85
"""Share of a set that is given out: the rest is for bursts, starts and one that is slower than measured."""


@dataclass(frozen=True)
class Costs:
    """GPU milliseconds of one kind of card and family, and what is lost around them.

    Attributes:
        render: A frame in a full bucket.
        host: The renderer's own time per frame during which its GPU work stands still; 0 where it overlaps.
        motion: One window alone.
        motion16: Sixteen windows in one batch.
        audio: One window alone.
        audio16: Sixteen windows in one batch.
        switching: Share of a GPU that is left when several processes take turns on it.
        call_ms: Time of a call from one process to another and back with a small answer.
        pictures_ms: Time of the same call when the answer holds the pictures of a chunk.
        hop: Frames of a window.
        motion_clip: Time of a file's motion, per frame.
    """

    render: float
    host: float
    motion: float
    motion16: float
    audio: float
    audio16: float
    switching: float
    call_ms: float
    pictures_ms: float
    hop: int
    motion_clip: float

    def motion_ms(self, windows: int) -> float:
        """A batch of so many windows of motion."""
        return self.motion + (self.motion16 - self.motion) * (windows - 1) / 15

    def audio_ms(self, windows: int) -> float:
        """A batch of so many windows of the speech encoder."""
        return self.audio + (self.audio16 - self.audio) * (windows - 1) / 15

    def session_ms(self, batch: int = 1) -> float:
        """GPU time of one second of one speaking session at this batch of the two small stages."""
        hops = 1 / (self.hop * FRAME_S)
        return self.render / FRAME_S + hops * (self.motion_ms(batch) + self.audio_ms(batch)) / batch

    def bound(self, batch: int = 1) -> float:
        """Speaking sessions that the arithmetic of the stage times allows on one GPU."""
        return 1000 / self.session_ms(batch)

    def tokens(self, batch: int = 1) -> int:
        """Speaking sessions that one set takes in: the slower of its GPU and its renderer's thread, with `LOAD` of it given out."""
        thread = (self.render + self.host) / FRAME_S
        return math.floor(LOAD * 1000 / max(self.session_ms(batch) / self.switching, thread))


H200_BEFORE: Final = Costs(
    render=2.24,
    host=0.83,
    motion=4.05,
    motion16=9.09,
    audio=2.3,
    audio16=4.0,
    switching=0.94,
    call_ms=3.0,
    pictures_ms=11.0,
    hop=5,
    motion_clip=0.28,
)
"""`ditto` on an H200 at 0ee677c. `audio16` is an estimate; everything else was measured (`docs/scaling.md`)."""

H200: Final = Costs(
    render=2.27,
    host=0.02,
    motion=4.05,
    motion16=9.09,
    audio=2.3,
    audio16=4.0,
    switching=0.94,
    call_ms=3.0,
    pictures_ms=11.0,
    hop=5,
    motion_clip=0.28,
)
"""The same with frames of many sessions in shared buckets: 436 frames/s of a bound of 440."""


@dataclass(frozen=True)
class Needs:
    """Says what a number of sessions needs.

    Attributes:
        sessions: Number of sessions at once.
        gpus: Sets of stages, one per GPU.
        hosts: Processes that own sessions.
        cores: Cores of all machines together.
        egress_gbit: Video and voice that leave, Gbit/s.
        replicas: Replicas of all deployments.
        calls: Stage calls per second.
    """

    sessions: int
    gpus: int
    hosts: int
    cores: float
    egress_gbit: float
    replicas: int
    calls: float


SESSIONS_PER_HOST: Final = 6
CORES_PER_SESSION: Final = 0.25
CORES_PER_GPU: Final = 2.5
MBIT_PER_SESSION: Final = 2.6


def needs(sessions: int, tokens: int, speaking: float = 1.0, hop: int = 5) -> Needs:
    """The formula of `docs/scaling.md`.

    Args:
        sessions: Number of sessions at once.
        tokens: Speaking sessions of one set.
        speaking: Share of the sessions that a set must be ready for.
        hop: Frames of a window.
    """
    gpus = math.ceil(sessions * speaking / tokens)
    hosts = math.ceil(sessions / SESSIONS_PER_HOST)
    return Needs(
        sessions=sessions,
        gpus=gpus,
        hosts=hosts,
        cores=CORES_PER_SESSION * sessions + CORES_PER_GPU * gpus,
        egress_gbit=sessions * MBIT_PER_SESSION / 1000,
        replicas=4 * gpus + hosts + math.ceil(sessions / 250),
        calls=sessions * 3 / (hop * FRAME_S),
    )
