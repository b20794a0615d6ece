"""A presenter as the avatar of an agent's session."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Final, Literal

import aiohttp
from livekit import api, rtc
from livekit.agents import AgentSession, APIError, get_job_context, utils
from livekit.agents.voice.avatar import AvatarSession as BaseAvatarSession
from livekit.agents.voice.avatar import DataStreamAudioOutput
from livekit.plugins.liveanchor.api import LiveAnchorAPI
from livekit.plugins.liveanchor.log import logger

IDENTITY: Final = "liveanchor-avatar"
TOKEN_TTL: Final = timedelta(hours=1)
ON_BEHALF: Final = "lk.publish_on_behalf"


class AvatarSession(BaseAvatarSession[Literal["avatar_disconnected"]]):
    """Lets a LiveAnchor presenter speak what an agent says. Call `start` before the agent's session starts.

    The event `avatar_disconnected` tells that the presenter left a room that goes on.

    Args:
        base_url: Address of the LiveAnchor server; `LIVEANCHOR_URL` where None.
        api_key: Its key; `LIVEANCHOR_API_KEY` where None, which may be missing.
        avatar_id: A registered presenter; None for the default one.
        fps: 25 or 50.
        avatar_identity: Who the presenter is in the room. Two with one identity put each other out.
        avatar_name: Its name there.
        http_session: Makes the requests; the job's own where None.

    Raises:
        ValueError: No address.
    """

    def __init__(
        self,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        avatar_id: str | None = None,
        fps: int = 25,
        avatar_identity: str = IDENTITY,
        avatar_name: str = "LiveAnchor",
        http_session: aiohttp.ClientSession | None = None,
    ) -> None:
        super().__init__()
        self._base_url = base_url or os.environ.get("LIVEANCHOR_URL", "")
        if not self._base_url:
            raise ValueError("base_url: nothing came; pass it or set LIVEANCHOR_URL")
        self._api_key = api_key or os.environ.get("LIVEANCHOR_API_KEY")
        self._avatar_id, self._fps = avatar_id, fps
        self._identity, self._name = avatar_identity, avatar_name
        self._http = http_session
        self._api: LiveAnchorAPI | None = None
        self._watched: rtc.Room | None = None
        self.session_id = ""

    @property
    def avatar_identity(self) -> str:
        """Who the presenter is in the room."""
        return self._identity

    @property
    def provider(self) -> str:
        """Name of this plugin in metrics."""
        return "liveanchor"

    async def start(
        self,
        agent_session: AgentSession,
        room: rtc.Room,
        *,
        livekit_url: str | None = None,
        livekit_api_key: str | None = None,
        livekit_api_secret: str | None = None,
    ) -> None:
        """Let the presenter join the agent's room and give it the agent's voice.

        Args:
            agent_session: The agent's session, not started yet.
            room: The agent's room.
            livekit_url: Address of the LiveKit server, as LiveAnchor reaches it; `LIVEKIT_URL` where None.
            livekit_api_key: Signs the presenter's token; `LIVEKIT_API_KEY` where None.
            livekit_api_secret: The same; `LIVEKIT_API_SECRET` where None.

        Raises:
            ValueError: An address or a key is missing.
            APIError: The presenter cannot come; the agent's own voice is left as it was.
        """
        url, key, secret = (
            given or os.environ.get(name, "")
            for given, name in (
                (livekit_url, "LIVEKIT_URL"),
                (livekit_api_key, "LIVEKIT_API_KEY"),
                (livekit_api_secret, "LIVEKIT_API_SECRET"),
            )
        )
        if not (url and key and secret):
            raise ValueError(
                "livekit_url, livekit_api_key, livekit_api_secret: pass all, or set LIVEKIT_URL and the others"
            )
        await super().start(agent_session, room)
        job = get_job_context(required=False)
        agent = job.local_participant_identity if job is not None else room.local_participant.identity
        name = job.job.room.name if job is not None else room.name  # a job's room may not be connected yet
        token = (
            api.AccessToken(api_key=key, api_secret=secret)
            .with_kind("agent")
            .with_identity(self._identity)
            .with_name(self._name)
            .with_grants(api.VideoGrants(room_join=True, room=name))
            .with_attributes({ON_BEHALF: agent})
            .with_ttl(TOKEN_TTL)
        )
        self._api = LiveAnchorAPI(self._base_url, self._api_key, self._http or utils.http_context.http_session())
        try:
            self.session_id = (await self._api.join(url, token.to_jwt(), self._avatar_id, self._fps))["session_id"]
        except APIError:
            await self.aclose()
            raise
        self._watched = room
        room.on("participant_disconnected", self._left)
        voice = DataStreamAudioOutput(
            room,
            destination_identity=self._identity,
            wait_remote_track=rtc.TrackKind.KIND_VIDEO,
            wait_playback_start=True,
        )
        agent_session.output.replace_audio_tail(voice)

    async def aclose(self) -> None:
        """Let the presenter leave; harmless when repeated."""
        if self._watched is not None:
            self._watched.off("participant_disconnected", self._left)
            self._watched = None
        session_id, self.session_id = self.session_id, ""
        if session_id and self._api is not None:
            try:
                await self._api.leave(session_id)
            except APIError as error:
                logger.warning("the presenter could not be told to leave: %s", error)
        await super().aclose()

    def _left(self, participant: rtc.RemoteParticipant) -> None:
        if participant.identity == self._identity and self.session_id:
            self.session_id = ""
            self.emit("avatar_disconnected")
