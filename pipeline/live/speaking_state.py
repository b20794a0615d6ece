"""Whether a face speaks, and what its client is told of it: every utterance begins and ends once."""

from __future__ import annotations

from collections.abc import Callable

from pipeline.live.contracts import LiveEvent, LiveState
from pipeline.live.speech_queue import Utterance
from pipeline.types import SAMPLE_RATE_HZ


class SpeakingState:
    """Keeps whether one session's face speaks and sends the events that say so.

    Args:
        session_id: Id that every event carries.
        tell: Called with every event.
        at_s: Gives the position on the media clock in seconds.

    Attributes:
        state: Where the session is in its life.
        epoch: Number of interruptions so far.
        utterances: Number of utterances that began.
    """

    def __init__(self, session_id: str, tell: Callable[[LiveEvent], None], at_s: Callable[[], float]) -> None:
        self._session_id, self._tell, self._at_s = session_id, tell, at_s
        self.state = LiveState.CONNECTING
        self.epoch = 0
        self.utterances = 0

    def heard(self, over: list[Utterance], current: Utterance | None) -> None:
        """Note what a heard tick changed: some utterances are over, and another may have begun."""
        for utterance in over:
            if utterance.sent:
                self._begins(utterance)
            self._finished(utterance, interrupted=False)
        if current is not None and current.sent:
            self._begins(current)
        self._settle(current)

    def interrupted(self, cut: list[Utterance]) -> None:
        """Note that utterances were cut: at least one, and the one that was heard comes first."""
        self.event("interrupted", utterance_id=cut[0].utterance_id)
        for utterance in cut:
            self._finished(utterance, interrupted=True)
        self._settle(None)

    def event(
        self,
        name: str,
        *,
        position_s: float | None = None,
        interrupted: bool | None = None,
        utterance_id: str | None = None,
        detail: str = "",
    ) -> None:
        """Send the client an event; the arguments are the fields of `LiveEvent`."""
        self._tell(
            LiveEvent(name, self._session_id, self.epoch, self._at_s(), position_s, interrupted, utterance_id, detail)
        )

    def _begins(self, utterance: Utterance) -> None:
        if utterance.started:
            return
        utterance.started = True
        self.utterances += 1
        self.state = LiveState.SPEAKING
        self.event("speaking_started", utterance_id=utterance.utterance_id)

    def _finished(self, utterance: Utterance, *, interrupted: bool) -> None:
        self.event(
            "speaking_finished",
            position_s=utterance.sent / SAMPLE_RATE_HZ,
            interrupted=interrupted,
            utterance_id=utterance.utterance_id,
        )

    def _settle(self, current: Utterance | None) -> None:
        if self.state in (LiveState.IDLE, LiveState.SPEAKING):
            speaking = current is not None and current.started
            self.state = LiveState.SPEAKING if speaking else LiveState.IDLE
