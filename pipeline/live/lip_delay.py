"""How long a voice must wait until its lips are ready: what the model needs, and what computing takes now."""

from __future__ import annotations

from collections import deque
from typing import Final

from pipeline.live.deadlines import CHAIN_RESERVE, LEAST_PREROLL_FRAMES, PREROLL_FRAMES, Cadence
from pipeline.live.grid import MediaGrid, samples_of_ms
from pipeline.live.hop_choice import HopChoice
from pipeline.live.microphone import Microphone
from pipeline.live.settings import LiveSettings
from pipeline.live.speech_queue import LeadTimes
from pipeline.stage_meter import StageMeter
from pipeline.types import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

LATE_TICKS: Final = 8
LATE_WITHIN_S: Final = 3.0
"""So many late pictures in so short a time: who speaks without a pause gets more time at once."""
LONGEST_CHAIN_S: Final = 0.5
"""Slower stages cost pictures, not time: people talk to each other."""


def chunk_of(hop_frames: int, wanted: int) -> int:
    """Frames per render call: as many as wanted where hops divide into such calls, else a whole hop."""
    return wanted if hop_frames % wanted == 0 else hop_frames


class LipDelay:
    """Decides how long the voice of one live session waits until its lips are ready.

    Args:
        stages: Stage calls, which say what the model needs and how long they took.
        settings: Time kept for computing, and frames per render call.
        hops: Chooses how long the hops of an utterance are.
        grid: Ticks of the session.
    """

    def __init__(self, stages: StageMeter, settings: LiveSettings, hops: HopChoice, grid: MediaGrid) -> None:
        self._stages = stages
        self._hops = hops
        self._late: deque[int] = deque(maxlen=LATE_TICKS)
        self._late_within = LATE_WITHIN_S * grid.fps
        info = stages.info
        gate_frames = min(info.lookahead_frames, info.lookahead_samples // SAMPLES_PER_FRAME)
        margin = samples_of_ms(settings.margin_ms)
        self._cadences = {
            hops.long: Cadence(hops.long, gate_frames, margin, hops.long),
            hops.short: Cadence(hops.short, gate_frames, margin, chunk_of(hops.short, settings.chunk_frames)),
        }
        self._after_hop = max(info.lookahead_samples, gate_frames * SAMPLES_PER_FRAME)
        if grid.ticks_per_frame > 1:
            self._after_hop += SAMPLES_PER_FRAME  # the frame after the last one is needed, too

    @property
    def cadence(self) -> Cadence:
        """How speech that begins now should be cut into work."""
        return self._cadences[self._hops.now()]

    @property
    def needed(self) -> int:
        """Samples after the first one of such a hop that must be here before it can be made."""
        return self._needed(self._hops.now())

    def begin(self, microphone: Microphone | None) -> Cadence:
        """How the utterance that begins is cut: in long hops only where its voice waits long enough for them.

        Args:
            microphone: Microphone that drives the face; None for pushed speech, which is here before its lips begin.
        """
        hop = self._hops.now()
        if microphone is not None and microphone.delay < self._needed(hop):
            hop = self._hops.short  # whoever begins to speak in the moment in which it grows is not made to wait
        return self._cadences[hop]

    def _needed(self, hop_frames: int) -> int:
        return hop_frames * SAMPLES_PER_FRAME + self._after_hop

    @property
    def computing(self) -> int:
        """Samples of time that computing is given now."""
        chain = int(min(self._stages.times.chain_s() * CHAIN_RESERVE, LONGEST_CHAIN_S) * SAMPLE_RATE_HZ)
        return max(self.cadence.margin, chain)

    def leads(self) -> LeadTimes:
        """How far ahead of the media clock pushed speech must lie."""
        return LeadTimes(
            start=self._preroll + self.computing,
            needed=SAMPLES_PER_FRAME + self.needed - self._preroll,
            keep=self.needed + self.computing // 2,
        )

    @property
    def _preroll(self) -> int:
        """Samples by which the mouth begins before pushed speech: more while nobody knows how long the stages take."""
        return (LEAST_PREROLL_FRAMES if self._stages.times.known else PREROLL_FRAMES) * SAMPLES_PER_FRAME

    def parts_ms(self, microphone: Microphone | None) -> dict[str, float]:
        """What a voice waits for, in milliseconds: `chunk`, a hop of audio; `look_ahead`; `compute`, time for the stages.

        Args:
            microphone: Microphone of the session; None for pushed speech, which is here before its lips begin.
        """
        chunk = self.cadence.hop_frames * SAMPLES_PER_FRAME if microphone else 0
        ahead = self.needed - chunk if microphone else self._preroll
        compute = microphone.delay - self.needed if microphone else self.computing
        parts = {"chunk": chunk, "look_ahead": ahead, "compute": compute}
        return {name: 1000 * samples / SAMPLE_RATE_HZ for name, samples in parts.items()}

    def late(self, tick: int) -> None:
        """A picture was due at a tick and had not come."""
        self._late.append(tick)

    def adapt(self, microphone: Microphone, speaking: bool, tick: int) -> None:
        """Give slower stages more time, while there is no speech or when pictures come late again and again.

        Args:
            microphone: Microphone of the session; its delay is changed.
            speaking: Whether speech is heard or on its way.
            tick: The present one.
        """
        wanted = self.needed + self.computing
        change = wanted - microphone.delay
        if not speaking and (change > samples_of_ms(20) or change < -samples_of_ms(100)):
            microphone.hear_after(wanted)
        elif change > samples_of_ms(10) and len(self._late) == LATE_TICKS:
            if tick - self._late[0] < self._late_within:
                microphone.hear_after(wanted)
            self._late.clear()
