"""What a live session tells about itself."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Interruption:
    """What an interruption cut.

    Attributes:
        position_s: Seconds of the utterance that were sent, to the last sample; 0 where nothing was heard.
        utterance_id: Id of the utterance that was cut; None where the face did not speak and nothing was done.
        epoch: Epoch of the session from now on.
    """

    position_s: float
    utterance_id: str | None
    epoch: int


@dataclass(frozen=True)
class LiveStats:
    """Holds the numbers of one session, counted since its start unless a line says otherwise.

    Attributes:
        session_id: Id of the session.
        state: State of the session, a value of `LiveState`.
        drive: Voice that drives the face, a value of `Drive`.
        avatar_id: Id of the avatar whose face is shown.
        epoch: Number of interruptions so far.
        fps: Pictures per second that it promises.
        fps_in: Frames of voice per second that came in over the last two seconds, 25 for a microphone without holes.
        fps_out: Ticks per second over the last two seconds.
        av_offset_ms: Picture time less voice time of the last tick.
        delay_ms: Time from a sample's arrival until it is heard.
        delay_parts_ms: Parts of that delay: `chunk`, `look_ahead`, `compute`.
        queue_depths: Speech that waits to be heard (`speech_ms`), pictures that wait to be shown (`pictures`), render calls in
            flight (`renders`).
        stage_calls: Calls per stage.
        stage_failures: Failed calls per stage.
        stage_p50_ms: Median latency of recent calls per stage.
        stage_p95_ms: 95th percentile of the same latencies.
        frames: Number of ticks.
        frames_repeated: Number of ticks at which a picture was due and had not come.
        quality: `full`, or `reduced` while pictures come too late (`PictureQuality`).
        frames_dropped: Number of pictures that came too late, or were not drawn because they would have come too late.
        input_inserted_ms: Silence put into the microphone's samples because they were late.
        input_dropped_ms: Microphone samples left out because there were too many.
        input_drift_ppm: How much faster the microphone is read, because its clock runs fast; below 0 where it runs slow.
        speaking: Whether the face speaks now.
        utterances: Number of utterances that began.
        interruptions: Number of interruptions that cut something.
        uptime_s: Seconds since `run` was called.
    """

    session_id: str
    state: str
    drive: str
    avatar_id: str
    epoch: int
    fps: int
    fps_in: float
    fps_out: float
    av_offset_ms: float
    delay_ms: float
    delay_parts_ms: dict[str, float] = field(default_factory=dict)
    queue_depths: dict[str, float] = field(default_factory=dict)
    stage_calls: dict[str, int] = field(default_factory=dict)
    stage_failures: dict[str, int] = field(default_factory=dict)
    stage_p50_ms: dict[str, float] = field(default_factory=dict)
    stage_p95_ms: dict[str, float] = field(default_factory=dict)
    frames: int = 0
    frames_repeated: int = 0
    quality: str = "full"
    frames_dropped: int = 0
    input_inserted_ms: float = 0.0
    input_dropped_ms: float = 0.0
    input_drift_ppm: float = 0.0
    speaking: bool = False
    utterances: int = 0
    interruptions: int = 0
    uptime_s: float = 0.0
