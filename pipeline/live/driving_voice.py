"""The voice that drives a face, a microphone's or pushed: taken in, laid on the timeline, and heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.expression.looks import Looks
from pipeline.live.contracts import Drive, VoiceTick
from pipeline.live.grid import samples_of_ms
from pipeline.live.input_rate import InputRate
from pipeline.live.lip_delay import LipDelay
from pipeline.live.mic_voice import MicVoice
from pipeline.live.microphone import Microphone
from pipeline.live.speech_queue import SOFT, SpeechQueue, Utterance
from pipeline.live.timeline import Timeline
from pipeline.live.voice_resampler import PER_SAMPLE
from pipeline.session.speech_scan import SpeechScan

FADE_OUT: Final = samples_of_ms(10)
"""How a voice that is cut ends: it falls to silence instead of clicking."""


class DrivingVoice:
    """Takes in the voice of one session and lets it be heard.

    Args:
        drive: Source of the voice: the client's microphone or pushed speech.
        timeline: Timeline that samples are laid on.
        scan: Finds a microphone's speech on the timeline.
        delay: Decides how long the voice waits for its lips.
        quiet_rms: A block of the microphone below this RMS is quiet.
        max_queued_s: Seconds of pushed speech that may wait.
        name: Makes utterance ids unique.
        now: Position of the media clock in samples.
        seconds: Monotonic seconds.
        on_samples: Called when something was laid on the timeline.
        on_mark: As in `SpeechQueue`.

    Attributes:
        microphone: Lays down a microphone's voice, where it drives the face.
        rate: How fast the voice comes in.
    """

    def __init__(
        self,
        drive: Drive,
        timeline: Timeline,
        scan: SpeechScan,
        delay: LipDelay,
        quiet_rms: float,
        max_queued_s: float,
        name: str,
        now: Callable[[], int],
        seconds: Callable[[], float],
        on_samples: Callable[[], None],
        on_mark: Callable[[int, Looks], None] = lambda at, to: None,
    ) -> None:
        self._drive, self._timeline, self._delay = drive, timeline, delay
        self._now, self._on_samples = now, on_samples
        self.rate = InputRate(seconds)
        self.microphone = Microphone(timeline, delay.needed + delay.cadence.margin, quiet_rms)
        self._mic = MicVoice(self.microphone, scan, quiet_rms, f"{name}-mic")
        self._queue = SpeechQueue(timeline, max_queued_s, f"{name}-speech", on_mark)
        self._speaker: MicVoice | SpeechQueue = self._mic if drive is Drive.MIC else self._queue
        self._playing = False
        self._fades_until = 0
        self._heard = asyncio.Event()

    @property
    def current(self) -> Utterance | None:
        """The utterance that is heard, or of pushed ones comes next."""
        return self._speaker.current

    @property
    def pending(self) -> bool:
        """Whether speech is heard or on its way."""
        return self._speaker.pending

    @property
    def more_may_come(self) -> bool:
        """Whether samples may still be written where the timeline ends now."""
        return self._drive is Drive.MIC or self._queue.more_may_come

    @property
    def waiting(self) -> int:
        """Samples of speech that wait to be heard."""
        return max(self._timeline.end - self._now(), 0) if self._drive is Drive.MIC else self._queue.queued_samples

    def begin(self) -> None:
        """The media clock runs."""
        self._playing = True

    def feed(self, samples: F32, place: int, tick: int, age: int = 0) -> None:
        """Microphone samples during a tick, as `LiveSession.feed` says; `age` is that of `Microphone.feed`."""
        if self._drive is not Drive.MIC or not self._playing:
            return
        self.rate.add(len(samples) // PER_SAMPLE)
        self._delay.adapt(self.microphone, self._mic.pending, tick)
        self._mic.feed(_finite(samples), place, self._now(), age)
        self._on_samples()

    def speak(self, pcm: F32, gain: float = 1.0) -> str:
        """Queue one utterance.

        Args:
            pcm: float32 (n,), 16 kHz mono.
            gain: What the networks hear it multiplied with; a file's `DecodedAudio.network_gain`.

        Returns:
            Its id.

        Raises:
            InvalidInputError: No samples, or a microphone drives the face.
            QueueFullError: More speech waits than `max_queued_s`.
        """
        self._only_pushed()
        if not len(pcm):
            raise InvalidInputError("audio", "0 samples", "at least one sample")
        utterance_id = self._queue.speak(_finite(pcm), self._now(), gain)
        self._pump(len(pcm))
        return utterance_id

    def push(self, pcm: F32) -> str:
        """Add to the open utterance, or begin one, float32 (n,), 16 kHz mono, any length.

        Returns:
            The utterance's id.

        Raises:
            InvalidInputError: A microphone drives the face.
            QueueFullError: More speech waits than `max_queued_s`.
        """
        self._only_pushed()
        utterance_id = self._queue.push(_finite(pcm), self._now())
        self._pump(len(pcm))
        return utterance_id

    def finish(self) -> str | None:
        """Nothing more comes of the open utterance; its id, None where none is open."""
        utterance_id = self._queue.finish()
        self._pump()
        return utterance_id

    def announce(self) -> str:
        """Queue an utterance whose samples all come later, by `add`, until `close`.

        Returns:
            Its id.

        Raises:
            InvalidInputError: A microphone drives the face.
        """
        self._only_pushed()
        return self._queue.announce(self._now())

    def add(self, utterance_id: str, pcm: F32, marks: Sequence[tuple[int, Looks]] = ()) -> bool:
        """Add to an announced utterance.

        Args:
            utterance_id: Answer of `announce`.
            pcm: float32 (n,), 16 kHz mono.
            marks: Changes of the face, each with the number of these samples before it.

        Returns:
            Whether it is still wanted: one that was cut is not.

        Raises:
            QueueFullError: More speech waits than `max_queued_s`.
        """
        wanted = self._queue.add(utterance_id, _finite(pcm), self._now(), marks)
        self._pump(len(pcm))
        return wanted

    def close(self, utterance_id: str) -> None:
        """Nothing more comes of an announced utterance; one that was cut is no error."""
        self._queue.close(utterance_id)
        self._pump()

    async def until_waiting(self, most: int) -> None:
        """Return when at most so many samples wait to be heard."""
        while self.waiting > most:
            await self._heard.wait()

    def go_on(self) -> None:
        """Time has passed: what will be heard soon is laid on the timeline."""
        self._heard.set()
        self._heard.clear()  # whoever waits has been woken
        if self._drive is not Drive.MIC and not self._queue.empty:
            self._pump()

    def hear(self, start: int, length: int) -> tuple[VoiceTick, bool, list[Utterance]]:
        """The timeline is played from `start` on, `length` samples.

        Returns:
            What is heard, whether an utterance is heard in it, and the utterances that are thereby over.
        """
        pcm = self._timeline.read(start, length) if start < self._timeline.end else np.zeros(length, np.float32)
        left = self._timeline.end - start
        if self._drive is not Drive.MIC and 0 < left < length + SOFT and self._queue.more_may_come:
            # an utterance whose rest has not come falls to silence instead of clicking
            pcm *= np.clip((left - np.arange(length, dtype=np.float32)) / SOFT, 0.0, 1.0)
        heard, over = self._speaker.hear(start, start + length)
        return VoiceTick(pcm, start, heard > 0 or start < self._fades_until), heard > 0, over

    def cut(self, position: int) -> list[Utterance]:
        """End everything at `position`, but for a short fade of what is heard; the utterances that were cut, oldest first."""
        current = self._speaker.current
        self._timeline.cut(position, FADE_OUT if current is not None and current.sent else 0)
        end = max(position, self._timeline.end)
        cut = self._speaker.cut(end)
        if any(utterance.sent for utterance in cut):
            self._fades_until = end
        return cut

    def _pump(self, fresh: int = 0) -> None:
        if fresh:
            self.rate.add(fresh)
        if self._playing and self._queue.pump(self._now(), self._delay.leads()):
            self._on_samples()

    def _only_pushed(self) -> None:
        if self._drive is Drive.MIC:
            raise InvalidInputError("drive", self._drive.value, Drive.PUSH.value, "the microphone drives this face")


def _finite(pcm: F32) -> F32:
    """float32 samples without NaN and infinity."""
    out = np.asarray(pcm, np.float32)
    return out if bool(np.isfinite(out).all()) else np.nan_to_num(out, nan=0.0, posinf=0.0, neginf=0.0)
