"""What the HTTP application needs of whoever holds live sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol

from deployments.host.live_calls import Interrupted, LiveAnswer, LiveHostStats, LiveOffer, NumberedEvent, Spoken
from kernels.arrays import F32


class LiveHost(Protocol):
    """Live sessions, wherever in the cluster they are.

    Every call that names a session may raise `SessionNotFoundError`, `SessionEndedError` or `SessionLostError`.
    """

    async def offer(self, offer: LiveOffer) -> LiveAnswer:
        """Begin a session. Raises NoCapacityError, InvalidInputError (`sdp`, `avatar_id`), or another LiveAnchorError."""
        ...

    async def candidates(self, session_id: str, candidates: Sequence[dict[str, Any]]) -> None:
        """More ICE candidates of the client; an empty sequence says that there are no more."""
        ...

    async def end(self, session_id: str) -> None:
        """End a session and free what it held."""
        ...

    async def speak(self, session_id: str, audio: bytes) -> Spoken:
        """Queue an audio file. Raises WrongDriveError and what `decode_audio` raises."""
        ...

    async def open_audio(self, session_id: str) -> str:
        """Become the one who pushes PCM; returns a token. Raises WrongDriveError, AudioInUseError."""
        ...

    async def push_audio(self, session_id: str, token: str, pcm: F32, ends: bool) -> float:
        """Take in PCM (16 kHz mono); `ends` ends the utterance. Returns seconds of speech that wait."""
        ...

    async def close_audio(self, session_id: str, token: str) -> None:
        """Give the place up; what was pushed is still spoken."""
        ...

    async def interrupt(self, session_id: str) -> Interrupted:
        """Stop speaking at once."""
        ...

    def events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """Events from number `after + 1` on, to the session's end; those that are too long ago are left out."""
        ...

    async def session_stats(self, session_id: str) -> dict[str, Any]:
        """One session's numbers."""
        ...

    async def live_stats(self) -> list[LiveHostStats]:
        """Every host's sessions."""
        ...

    async def view(self, session_id: str, sdp: str) -> tuple[str, str]:
        """A viewer more: (viewer id, SDP answer)."""
        ...

    async def end_view(self, session_id: str, viewer_id: str) -> None:
        """A viewer less; one that is gone already is no error."""
        ...

    async def view_candidates(self, session_id: str, viewer_id: str, candidates: Sequence[dict[str, Any]]) -> None:
        """More ICE candidates of a viewer."""
        ...
