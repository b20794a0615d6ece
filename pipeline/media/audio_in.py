"""Any audio a caller hands in -> float32 mono 16 kHz for the networks, and the voice at its own rate for the file.

Levels: integer samples are divided by their full scale, float samples are clipped to -1..1 (floats that hold integers are
scaled first) and NaN or infinite ones become 0. Pauses that only the container's timestamps tell of are kept. Channels become
one in numpy *before* resampling, because FFmpeg's float stereo-to-mono is 3 dB too loud.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernels.arrays import F32
from pipeline.media.audio_blocks import SoundBlock, decoded_blocks
from pipeline.media.audio_container import AudioLimits, AudioSource, audio_file
from pipeline.media.audio_errors import AudioEmptyError
from pipeline.media.audio_parts import parts_of
from pipeline.media.audio_survey import survey
from pipeline.media.downmix import Mix
from pipeline.media.loudness import network_gain, voice_gain
from pipeline.media.resample import StreamingResampler
from pipeline.types import SAMPLE_RATE_HZ

MAX_VOICE_RATE_HZ = 48_000
AAC_RATES_HZ = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)


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
    """A piece of speech.

    Attributes:
        pcm: float32 (n,), mono, 16 kHz, -1..1, finite, n >= 1.
        voice: The same sound at its own rate (at most 48 kHz, mono or stereo); goes into the file.
        network_gain: What to multiply `pcm` with for the networks; 1 where its level is ordinary.
    """

    pcm: F32
    voice: AudioTrack
    network_gain: float = 1.0

    def for_networks(self) -> F32:
        """What drives the face: `pcm` at the level of the networks' training, float32 (n,), -1..1."""
        return self.pcm if self.network_gain == 1.0 else np.clip(self.pcm * np.float32(self.network_gain), -1.0, 1.0)

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.pcm) / SAMPLE_RATE_HZ


def decode_audio(source: AudioSource, limits: AudioLimits | None = None, *, normalise: bool = False) -> DecodedAudio:
    """Decode everything.

    Args:
        source: The file's bytes, its path, or an open binary file (read from its start when it can seek).
        limits: Refuse more than this; by default 600 s and 256 MiB.
        normalise: Bring the voice to -23 LUFS (EBU R128), peaks to at most -1 dBFS; otherwise its level stays what it was.

    Returns:
        The 16 kHz mono signal and the voice track; n samples at 16 kHz come out as n samples.

    Raises:
        AudioUnreadableError: No known audio container or decoder, mostly broken data, sound that no header describes, or a path
            that cannot be opened.
        AudioNoStreamError: A video without sound.
        AudioEmptyError: No samples.
        AudioTooLongError: Longer than `limits.max_seconds`, pauses included.
        AudioTooLargeError: More than `limits.max_bytes`.
        AudioUnsupportedError: Rate outside 8..192 kHz, more than 8 channels, or floats that are larger than 32-bit integers.
    """
    to_model = StreamingResampler(SAMPLE_RATE_HZ)
    pcm, voice = _Samples(1), _Samples(1)
    to_voice: StreamingResampler | None = None
    same = False  # the voice is the mono 16 kHz signal itself and is kept once
    for block, mix in _blocks(source, limits or AudioLimits()):
        rate_hz = block.rate_hz
        if to_voice is None:
            to_voice = StreamingResampler(
                rate_hz if rate_hz in AAC_RATES_HZ else MAX_VOICE_RATE_HZ, 2 if block.samples.shape[1] == 2 else 1
            )
            same = to_voice.channels == 1 and to_voice.rate_hz == SAMPLE_RATE_HZ
            voice = _Samples(to_voice.channels)
        mono = mix.mono(block.samples)
        pcm.append(to_model.push(mono, rate_hz))
        if not same:
            voice.append(to_voice.push(_with_channels(block.samples, mix, mono, to_voice.channels), rate_hz))
    if to_voice is None:
        raise AudioEmptyError("no samples", "at least one sample")
    pcm.append(to_model.flush())
    voice.append(to_voice.flush())
    samples = pcm.clipped()
    track = samples if same else voice.clipped()
    if normalise:
        gain = np.float32(voice_gain(track, to_voice.rate_hz))
        track *= gain
        if not same:
            np.clip(samples * gain, -1.0, 1.0, out=samples)
    pcm_heard = samples[:, 0]
    return DecodedAudio(pcm_heard, AudioTrack(track, to_voice.rate_hz), network_gain(pcm_heard))


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


def _blocks(source: AudioSource, limits: AudioLimits) -> Iterator[tuple[SoundBlock, Mix]]:
    """Every block, its samples in -1..1, and how its channels become one. The upload is decoded twice: to look, and to take."""
    with audio_file(source, limits) as file:
        parts = parts_of(file)
        known = survey(decoded_blocks(file, parts, limits))
        for part, block in decoded_blocks(file, parts, limits):
            yield known.read(part, block), known.mix(part, block)


def _with_channels(block: F32, mix: Mix, mono: F32, channels: int) -> F32:
    """The block with one or two channels."""
    if channels == 1:
        return mono
    return mix.turned(block) if block.shape[1] == 2 else np.repeat(mono, 2, axis=1)
