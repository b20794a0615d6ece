"""Typed settings of live sessions and of their transport."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, SecretStr, field_serializer, model_validator

from pipeline.config import Settings


class LiveSettings(Settings):
    """How a live session behaves."""

    max_sessions: int = Field(
        6, ge=1, le=1000, description="Sessions per SessionHost replica, never more: one event loop sends them all."
    )
    sessions_per_gpu: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="Speaking sessions at 25 frames/s that one GPU is given, never more; null: what its measured cost allows.",
    )
    max_chunk_latency_share: float = Field(
        0.8,
        gt=0,
        le=2,
        description="A new session is refused when it would make pictures take longer than this share of the time that they last.",
    )
    chunk_frames: Literal[4, 8, 16] = Field(4, description="Motion frames per render call; short ones answer sooner.")
    hop_frames: Literal[4, 8] = Field(
        4, description="New motion frames per window where the family allows it; more of them while stages are crowded."
    )
    margin_ms: int = Field(80, ge=0, le=1000, description="Time kept for computing and jitter before a frame is due.")
    stage_call_s: float = Field(2.0, gt=0, le=60, description="A stage call that takes longer counts as lost.")
    stages_timeout_s: float = Field(
        30.0,
        gt=0,
        le=3600,
        description="A session ends when a stage has failed for so long: longer than a killed replica's successor takes to start.",
    )
    idle_ttl_s: float = Field(300.0, gt=0, description="A session in which nobody spoke for so long ends.")
    max_duration_s: float = Field(3600.0, gt=0, description="Longest session.")
    connect_timeout_s: float = Field(20.0, gt=0, le=120, description="ICE and DTLS must be done in this time.")
    connect_grace_s: float = Field(
        10.0,
        gt=0,
        le=120,
        description="Where all places are taken, a session whose client has not come for so long gives way to a new offer.",
    )
    max_queued_speech_s: float = Field(600.0, gt=0, description="Speech that may wait in a pushed session.")
    stats_ids: bool = Field(
        True,
        description="Whole session ids in the list of all sessions; whoever knows one may speak, interrupt and end.",
    )
    livekit_hosts: tuple[str, ...] = Field(
        (),
        description="Hosts of LiveKit servers whose rooms sessions may join, such as live.example or *.live.example; empty: none.",
    )
    idle_loop_frames: int = Field(100, ge=25, le=500, description="Frames of the idle loop, played to and fro.")
    idle_cache_bytes: int = Field(512 * 2**20, ge=2**20, description="Bound on idle loops kept in one replica.")


class IceServer(Settings):
    """Names one STUN or TURN server, which clients are given and the service uses itself."""

    urls: tuple[str, ...] = Field(min_length=1, description="stun:host:port or turn:host:port?transport=udp.")
    username: str = ""
    credential: SecretStr = SecretStr("")

    @field_serializer("credential", when_used="json")
    def _whole(self, credential: SecretStr) -> str:
        """The document that Ray Serve is given must hold it; logs and reprs never do."""
        return credential.get_secret_value()


class RtcSettings(Settings):
    """Settings of the WebRTC transport: servers, addresses, ports, bit rates and viewers."""

    ice_servers: tuple[IceServer, ...] = Field((), description="None by default: host candidates only.")
    turn_urls: tuple[str, ...] = Field(
        (),
        description="TURN servers whose credentials are made for each client, with turn_secret: turn:host:port?transport=udp.",
    )
    turn_secret: SecretStr = Field(
        SecretStr(""), description="Secret shared with these servers (coturn: use-auth-secret, static-auth-secret)."
    )
    turn_ttl_s: int = Field(3600, ge=60, le=86_400, description="How long such credentials may begin a relay.")
    public_ip: str = Field("", description="Address that replaces our own in candidates, behind 1:1 NAT.")
    udp_port_min: int = Field(0, ge=0, le=65535, description="First UDP port for media; 0: any.")
    udp_port_max: int = Field(0, ge=0, le=65535, description="Last UDP port for media; 0: any.")
    min_kbps: int = Field(300, ge=50, le=50_000, description="Floor of the video bit rate.")
    max_kbps: int = Field(4000, ge=100, le=100_000, description="Ceiling of the video bit rate.")
    start_kbps: int = Field(2500, ge=50, le=100_000, description="Video bit rate before the network has been measured.")
    max_viewers: int = Field(16, ge=0, le=1000, description="WHEP viewers per session.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.min_kbps <= self.start_kbps <= self.max_kbps:
            raise ValueError("min_kbps <= start_kbps <= max_kbps must hold")
        if (self.udp_port_min == 0) != (self.udp_port_max == 0) or self.udp_port_min > self.udp_port_max:
            raise ValueError("udp_port_min and udp_port_max are both 0 or an ascending range")
        if bool(self.turn_urls) != bool(self.turn_secret.get_secret_value()):
            raise ValueError("turn_urls and turn_secret come together")
        return self

    @field_serializer("turn_secret", when_used="json")
    def _whole(self, secret: SecretStr) -> str:
        """Give the secret in full to Ray Serve's document, as `IceServer` does."""
        return secret.get_secret_value()
