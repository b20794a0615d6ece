"""Any audio a caller hands in -> float32 mono 16 kHz for the networks, and the voice at its own rate for the file.

Levels: integer samples are divided by their full scale, float samples are clipped to -1..1 and NaN or infinite ones become 0.
Channels are averaged in numpy *before* resampling, because FFmpeg's float stereo-to-mono is 3 dB too loud.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.media.audio_container import READABLE, AudioLimits, AudioSource, error_reason, opened_audio
from pipeline.media.audio_errors import (
    AudioEmptyError,
    AudioNoStreamError,
    AudioTooLongError,
    AudioUnreadableError,
    AudioUnsupportedError,
)
from pipeline.media.resample import MAX_RATE_HZ, MIN_RATE_HZ, StreamingResampler
from pipeline.types import SAMPLE_RATE_HZ, AudioChunk

if TYPE_CHECKING:
    from av import AudioFrame
    from av.audio.stream import AudioStream
    from av.container import InputContainer

MAX_CHANNELS = 8
MAX_VOICE_RATE_HZ = 48_000
AAC_RATES_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
SILENT_POWER = 1e-7
CANCELLED_SHARE = 0.01
"""A stereo block whose mean keeps less than this share of its power is taken for one with an inverted channel."""
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
class AudioTrack:
    """Sound to be carried in a file.

    Attributes:
        samples: float32 (n, channels), one or two channels, -1..1, finite.
        rate_hz: Samples per second; one that AAC knows, at most 48000.
    """

    samples: F32
    rate_hz: int


@dataclass(frozen=True)
class DecodedAudio:
    """One piece of speech.

    Attributes:
        pcm: float32 (n,), mono, 16 kHz, -1..1, finite, n >= 1; drives the face.
        voice: The same sound at its own rate (at most 48 kHz, mono or stereo); goes into the file.
    """

    pcm: F32
    voice: AudioTrack

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.pcm) / SAMPLE_RATE_HZ


def decode_audio(source: AudioSource, limits: AudioLimits | None = None) -> DecodedAudio:
    """Decode everything.

    Args:
        source: The file's bytes, its path, or an open binary file (read from its start when it can seek).
        limits: Refuse more than this; by default 600 s and 256 MiB.

    Returns:
        The 16 kHz mono signal and the voice track; n samples at 16 kHz come out as n samples.

    Raises:
        AudioUnreadableError: No known audio container or decoder, mostly broken data, or a path that cannot be opened.
        AudioNoStreamError: A video without sound.
        AudioEmptyError: No samples.
        AudioTooLongError: Longer than `limits.max_seconds`.
        AudioTooLargeError: More than `limits.max_bytes`.
        AudioUnsupportedError: Rate outside 8..192 kHz or more than 8 channels.
    """
    to_model = StreamingResampler(SAMPLE_RATE_HZ)
    pcm, voice = _Samples(1), _Samples(1)
    to_voice: StreamingResampler | None = None
    same = False  # the voice is the mono 16 kHz signal itself and is kept once
    for block, rate_hz in _decoded_blocks(source, limits or AudioLimits()):
        if to_voice is None:
            to_voice = StreamingResampler(
                rate_hz if rate_hz in AAC_RATES_HZ else MAX_VOICE_RATE_HZ, 2 if block.shape[1] == 2 else 1
            )
            same = to_voice.channels == 1 and to_voice.rate_hz == SAMPLE_RATE_HZ
            voice = _Samples(to_voice.channels)
        mono = _mono(block)
        pcm.append(to_model.push(mono, rate_hz))
        if not same:
            voice.append(to_voice.push(_with_channels(block, mono, to_voice.channels), rate_hz))
    if to_voice is None:
        raise AudioEmptyError("no samples", "at least one sample")
    pcm.append(to_model.flush())
    voice.append(to_voice.flush())
    samples = pcm.clipped()
    track = samples if same else voice.clipped()
    return DecodedAudio(samples[:, 0], AudioTrack(track, to_voice.rate_hz))


class _Samples:
    """Samples that grow in one piece of memory, which a list of blocks and their concatenation would need twice.

    Args:
        channels: Per sample.
    """

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self._bytes = bytearray()

    def append(self, block: F32) -> None:
        """Add float32 (n, channels)."""
        self._bytes += np.ascontiguousarray(block).view(np.uint8).reshape(-1).data

    def clipped(self) -> F32:
        """Everything, float32 (n, channels), -1..1; the object must not be used afterwards."""
        samples = np.frombuffer(self._bytes, np.float32).reshape(-1, self._channels)
        np.clip(samples, -1.0, 1.0, out=samples)
        return samples


def iter_speech(
    source: AudioSource, limits: AudioLimits | None = None, block_samples: int = 16_000
) -> Iterator[AudioChunk]:
    """Decode piece by piece, so that a long file need not be in memory at once.

    Args:
        source: As for `decode_audio`.
        limits: As for `decode_audio`; `max_seconds` is reached while iterating.
        block_samples: Samples per chunk at 16 kHz, >= 1; the last one may be shorter.

    Yields:
        Consecutive chunks, epoch 0; together exactly `decode_audio(...).pcm`.

    Raises:
        AudioInputError: As for `decode_audio`, when the problem is reached.
        InvalidInputError: `block_samples` is below 1.
    """
    if block_samples < 1:
        raise InvalidInputError("block_samples", str(block_samples), "at least 1")
    resampler = StreamingResampler(SAMPLE_RATE_HZ)
    waiting: list[F32] = []
    held, position = 0, 0
    for block, rate_hz in _decoded_blocks(source, limits or AudioLimits()):
        ready = np.clip(resampler.push(_mono(block), rate_hz)[:, 0], -1.0, 1.0)
        waiting.append(ready)
        held += len(ready)
        if held >= block_samples:
            joined = np.concatenate(waiting)
            for start in range(0, held - block_samples + 1, block_samples):
                yield AudioChunk(joined[start : start + block_samples], position)
                position += block_samples
            waiting = [joined[held - held % block_samples :]]
            held %= block_samples
    rest = np.concatenate([*waiting, np.clip(resampler.flush()[:, 0], -1.0, 1.0)])
    for start in range(0, len(rest), block_samples):
        yield AudioChunk(rest[start : start + block_samples], position)
        position += len(rest[start : start + block_samples])
    if position == 0:
        raise AudioEmptyError("no samples", "at least one sample")


def _decoded_blocks(source: AudioSource, limits: AudioLimits) -> Iterator[tuple[F32, int]]:
    """Yield (float32 (n, channels) finite in -1..1, rate) while enforcing the limits."""
    import av

    seconds, good, bad = 0.0, 0, 0
    with opened_audio(source, limits) as container:
        stream = _audio_stream(container)
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
                    seconds += frame.samples / frame.sample_rate
                    if seconds > limits.max_seconds + 1e-6:
                        raise AudioTooLongError(
                            f"more than {limits.max_seconds:g} s", f"at most {limits.max_seconds:g} s"
                        )
                    yield _to_float(frame), int(frame.sample_rate)
        except av.error.FFmpegError as error:
            raise AudioUnreadableError(error_reason(error), READABLE) from error
        if bad > good:
            raise AudioUnreadableError(f"{bad} of {good + bad} packets broken", READABLE)


def _audio_stream(container: InputContainer) -> AudioStream:
    if not container.streams.audio:
        kinds = sorted({str(stream.type) for stream in container.streams}) or ["no known"]
        raise AudioNoStreamError(f"a file with {', '.join(kinds)} streams only", READABLE)
    stream = container.streams.audio[0]
    if stream.codec_context is None:
        raise AudioUnreadableError("an audio codec that is not known here", READABLE)
    return stream


def _check_frame(frame: AudioFrame) -> None:
    channels = frame.layout.nb_channels
    if not MIN_RATE_HZ <= frame.sample_rate <= MAX_RATE_HZ:
        raise AudioUnsupportedError(f"{frame.sample_rate} Hz", f"{MIN_RATE_HZ} to {MAX_RATE_HZ} Hz")
    if not 1 <= channels <= MAX_CHANNELS:
        raise AudioUnsupportedError(f"{channels} channels", f"1 to {MAX_CHANNELS} channels")
    if frame.format.name.removesuffix("p") not in SAMPLE_SCALES:
        raise AudioUnsupportedError(f"sample format {frame.format.name}", ", ".join(SAMPLE_SCALES))


def _to_float(frame: AudioFrame) -> F32:
    """float32 (n, channels), finite, -1..1."""
    offset, scale = SAMPLE_SCALES[frame.format.name.removesuffix("p")]
    raw = frame.to_ndarray()
    table = raw.T if frame.format.is_planar else raw.reshape(-1, frame.layout.nb_channels)
    if table.dtype.kind == "f":
        finite = np.where(np.isfinite(table), table, 0.0)
        return np.clip(finite, -1.0, 1.0).astype(np.float32)
    if offset:
        return ((table.astype(np.float32) - np.float32(offset)) * np.float32(scale)).astype(np.float32)
    return np.multiply(table, scale, dtype=np.float64).astype(np.float32)


def _mono(block: F32) -> F32:
    """Mean over channels, float32 (n, 1); the left one alone where two cancel each other (one of them wired inverted)."""
    if block.shape[1] == 1:
        return block
    mean: F32 = block.mean(axis=1, keepdims=True, dtype=np.float32)
    if block.shape[1] == 2:
        power = float(np.square(block).mean())
        if power > SILENT_POWER and float(np.square(mean).mean()) < CANCELLED_SHARE * power:
            return np.ascontiguousarray(block[:, :1])
    return mean


def _with_channels(block: F32, mono: F32, channels: int) -> F32:
    """The block with one or two channels."""
    if block.shape[1] == channels:
        return block
    return mono if channels == 1 else np.repeat(mono, 2, axis=1)
