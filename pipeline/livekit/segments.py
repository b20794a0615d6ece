"""What an agent lets a session say, segment by segment, and how much of each was heard. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(eq=False)
class Segment:
    """One stream of speech.

    Attributes:
        utterance_id: Utterance of the session that says it; empty before its first sample.
        told: Whether its end was reported; what comes of it after that is dropped.
    """

    utterance_id: str = ""
    told: bool = False


class Segments:
    """Reports the end of every segment once, in the order in which they end.

    Args:
        report: Gets the seconds of a segment that were heard, and whether it was cut short.
    """

    def __init__(self, report: Callable[[float, bool], None]) -> None:
        self._report = report
        self._open: list[Segment] = []
        self._leaving: dict[str, tuple[float, float]] = {}

    def begin(self) -> Segment:
        """A stream has begun."""
        segment = Segment()
        self._open.append(segment)
        return segment

    def end(self, segment: Segment) -> None:
        """A stream has ended; one without a sample is over by that."""
        if not segment.utterance_id:
            self._tell(segment, 0.0, interrupted=False)

    def sent(self, utterance_id: str, position_s: float, said_s: float) -> bool:
        """An utterance was sent to its end, though some of it may wait to be heard; answers whether it is a segment.

        Args:
            utterance_id: The utterance.
            position_s: Its length in seconds.
            said_s: Seconds of voice that the session has sent in all, speech and silence.
        """
        if any(one.utterance_id == utterance_id for one in self._open):
            self._leaving[utterance_id] = position_s, said_s
            return True
        return False

    def heard(self, utterance_id: str) -> None:
        """What waited of a sent utterance has been heard; one that was cut meanwhile is no error."""
        if utterance_id in self._leaving:
            self._finish(utterance_id, self._leaving.pop(utterance_id)[0], interrupted=False)

    def cut(self, said_s: float, unheard_s: float, cut: list[tuple[str, float]]) -> None:
        """Everything was cut: what is sent and what is not, and streams that have said nothing yet.

        Args:
            said_s: Seconds of voice that the session has sent in all.
            unheard_s: How many of these, the last ones, will not be heard.
            cut: Utterances that were not sent to their end and how many seconds of each were sent, oldest first.
        """
        sent = [(one, position_s, end_s) for one, (position_s, end_s) in self._leaving.items()]
        self._leaving.clear()
        for utterance_id, position_s, end_s in [*sent, *((one, position_s, said_s) for one, position_s in cut)]:
            lost_s = max(end_s - (said_s - unheard_s), 0.0)
            self._finish(utterance_id, max(position_s - lost_s, 0.0), interrupted=True)
        for segment in [one for one in self._open if not one.utterance_id]:
            self._tell(segment, 0.0, interrupted=True)

    def _finish(self, utterance_id: str, position_s: float, *, interrupted: bool) -> None:
        for segment in [one for one in self._open if one.utterance_id == utterance_id]:
            self._tell(segment, position_s, interrupted=interrupted)

    def _tell(self, segment: Segment, position_s: float, *, interrupted: bool) -> None:
        if not segment.told:
            segment.told = True
            self._open.remove(segment)
            self._report(position_s, interrupted)
