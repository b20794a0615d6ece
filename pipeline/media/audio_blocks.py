"""Decoded sound as blocks of float32, in the order and at the times that the container gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from kernels.arrays import F32
from pipeline.media.audio_container import READABLE, AudioLimits, error_reason, opened_container
from pipeline.media.audio_errors import (
    AudioNoStreamError,
    AudioTooLongError,
    AudioUnreadableError,
    AudioUnsupportedError,
)
from pipeline.media.audio_parts import Part, PartFile
from pipeline.media.resample import MAX_RATE_HZ, MIN_RATE_HZ
from pipeline.media.timeline import TIMED_CONTAINERS, Timeline

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

MAX_CHANNELS = 8
SILENCE_BLOCK_S = 1.0
"""A long pause comes in pieces, so that it costs no memory of its own."""
SAMPLE_SCALES: dict[str, tuple[float, float]] = {
    "u8": (128.0, 1.0 / 128.0),
    "s16": (0.0, 1.0 / 32_768.0),
    "s32": (0.0, 1.0 / 2_147_483_648.0),
    "s64": (0.0, 1.0 / 9_223_372_036_854_775_808.0),
    "flt": (0.0, 1.0),
    "dbl": (0.0, 1.0),
}
"""Per FFmpeg sample format: what to subtract, what to multiply by."""


@dataclass(frozen=True)
class SoundBlock:
    """Consecutive samples of one rate and layout.

    Attributes:
        samples: float32 (n, channels), finite; integers are divided by their full scale, floats are as they came.
        rate_hz: Samples per second.
        layout: The channels' names, such as FL or FC; empty where the file names none.
        sample_format: FFmpeg's name, without the planar mark; empty for silence in the place of a hole.
    """

    samples: F32
    rate_hz: int
    layout: tuple[str, ...]
    sample_format: str


def decoded_blocks(file: BinaryIO, parts: list[Part], limits: AudioLimits) -> Iterator[tuple[int, SoundBlock]]:
    """Decode the parts of an upload, one behind the other.

    Args:
        file: The upload.
        parts: From `parts_of`.
        limits: `max_seconds` of all parts and pauses together.

    Yields:
        Index of the part, and its next block; blocks are never empty.

    Raises:
        AudioInputError: What `decode_audio` says.
    """
    begun_s = 0.0
    for index, part in enumerate(parts):
        alone = len(parts) == 1 and part.start == 0 and part.mended is None
        try:
            with opened_container(file if alone else cast(BinaryIO, PartFile(file, part))) as container:
                for block in _blocks_of(container, limits, begun_s):
                    begun_s += len(block.samples) / block.rate_hz
                    yield index, block
        except (AudioUnreadableError, AudioNoStreamError) as error:
            if index == 0:
                raise
            got = f"{part.end - part.start} bytes behind the end of the sound, at byte {part.start}: {error.got}"
            raise AudioUnreadableError(got, error.allowed) from error


def _blocks_of(container: InputContainer, limits: AudioLimits, begun_s: float) -> Iterator[SoundBlock]:
    """Blocks of one container, pauses included."""
    import av

    stream = _audio_stream(container)
    timed = not TIMED_CONTAINERS.isdisjoint(container.format.name.split(","))
    timeline = Timeline(_picture_start(container))
    good, bad = 0, 0
    try:
        for packet in container.demux(stream):
            try:
                frames = packet.decode()
            except (av.error.InvalidDataError, av.error.PatchWelcomeError):
                bad += 1
                continue
            good += 1
            for frame in frames:
                if frame.samples == 0:
                    continue
                _check_frame(frame)
                yield from _placed(frame, timeline, timed, limits, begun_s)
    except (av.error.FFmpegError, OSError) as error:
        raise AudioUnreadableError(error_reason(error), READABLE) from error
    if bad > good:
        raise AudioUnreadableError(f"{bad} of {good + bad} packets broken", READABLE)


def _placed(
    frame: AudioFrame, timeline: Timeline, timed: bool, limits: AudioLimits, begun_s: float
) -> Iterator[SoundBlock]:
    """Silence for the hole in front of a frame, then what is new of it."""
    rate_hz, before_s = int(frame.sample_rate), timeline.position_s
    time_s = float(frame.pts * frame.time_base) if timed and frame.pts is not None and frame.time_base else None
    placed = timeline.place(time_s, frame.samples / rate_hz)
    if begun_s + timeline.position_s > limits.max_seconds + 1e-6:
        hole = (
            f", with a hole of {placed.silence_s:.1f} s in its timestamps at {before_s:.1f} s"
            if placed.silence_s > 1.0
            else ""
        )
        raise AudioTooLongError(f"more than {limits.max_seconds:g} s{hole}", f"at most {limits.max_seconds:g} s")
    named = tuple(channel.name for channel in frame.layout.channels)
    channels = frame.layout.nb_channels
    block = SoundBlock(np.zeros((0, channels), np.float32), rate_hz, named if len(named) == channels else (), "")
    missing = round(placed.silence_s * rate_hz)
    while missing > 0:
        piece = min(missing, round(SILENCE_BLOCK_S * rate_hz))
        yield replace(block, samples=np.zeros((piece, channels), np.float32))
        missing -= piece
    samples = _to_float(frame)[round(placed.cut_s * rate_hz) :]
    if len(samples):
        yield replace(block, samples=samples, sample_format=frame.format.name.removesuffix("p"))


def _audio_stream(container: InputContainer) -> AudioStream:
    if not container.streams.audio:
        kinds = sorted({str(stream.type) for stream in container.streams}) or ["no known"]
        raise AudioNoStreamError(f"a file with {', '.join(kinds)} streams only", READABLE)
    stream = container.streams.audio[0]
    if stream.codec_context is None:
        raise AudioUnreadableError("an audio codec that is not known here", READABLE)
    return stream


def _picture_start(container: InputContainer) -> float | None:
    """When the first moving picture is shown: sound that begins later is heard later."""
    import av

    cover = av.stream.Disposition.attached_pic
    starts = [
        float(stream.start_time * stream.time_base)
        for stream in container.streams.video
        if stream.start_time is not None and stream.time_base and not stream.disposition & cover
    ]
    return min(starts, default=None)


def _check_frame(frame: AudioFrame) -> None:
    channels = frame.layout.nb_channels
    if not MIN_RATE_HZ <= frame.sample_rate <= MAX_RATE_HZ:
        raise AudioUnsupportedError(f"{frame.sample_rate} Hz", f"{MIN_RATE_HZ} to {MAX_RATE_HZ} Hz")
    if not 1 <= channels <= MAX_CHANNELS:
        raise AudioUnsupportedError(f"{channels} channels", f"1 to {MAX_CHANNELS} channels")
    if frame.format.name.removesuffix("p") not in SAMPLE_SCALES:
        raise AudioUnsupportedError(f"sample format {frame.format.name}", ", ".join(SAMPLE_SCALES))


def _to_float(frame: AudioFrame) -> F32:
    """float32 (n, channels), finite; floats keep their range."""
    offset, scale = SAMPLE_SCALES[frame.format.name.removesuffix("p")]
    raw = frame.to_ndarray()
    table = raw.T if frame.format.is_planar else raw.reshape(-1, frame.layout.nb_channels)
    if table.dtype.kind == "f":
        finite = np.where(np.isfinite(table), table, 0.0)
        return np.clip(finite, -1e30, 1e30).astype(np.float32)
    if offset:
        return ((table.astype(np.float32) - np.float32(offset)) * np.float32(scale)).astype(np.float32)
    return np.multiply(table, scale, dtype=np.float64).astype(np.float32)
