"""A first look over a whole upload: what its sample values mean, and which channels carry the voice.

Both are decided once for all of it. Deciding block by block would change the level during speech.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.media.audio_blocks import SoundBlock
from pipeline.media.audio_errors import AudioUnsupportedError
from pipeline.media.downmix import ChannelSurvey, Mix, plain_mix

FULL_SCALES: Final = (4.0, 128.0, 32_768.0, 8_388_608.0, 2_147_483_648.0)
"""Floats up to 4 (12 dB over) are what floats should be and are clipped; beyond they are integers of 8, 16, 24 or 32 bits."""
STRAY_SHARE: Final = 0.01
"""Single wild samples do not decide what the others mean."""
SMOOTHER: Final = 0.25
"""Bytes whose steps are so much smaller with the sign bit turned over are of the other kind (signed or unsigned)."""
_LEAST_BYTES: Final = 100


@dataclass(frozen=True)
class Reading:
    """What sample values mean.

    Attributes:
        scale: Factor.
        sign_turned: The bytes are signed where the file says unsigned, or the other way round.
    """

    scale: float = 1.0
    sign_turned: bool = False

    def apply(self, block: SoundBlock) -> F32:
        """float32 (n, channels), -1..1."""
        samples = block.samples
        if self.sign_turned and block.sample_format == "u8":
            samples = np.where(samples < 0, samples + np.float32(1), samples - np.float32(1))
        if block.sample_format in ("flt", "dbl"):
            scaled: F32 = np.clip(samples * np.float32(self.scale), -1.0, 1.0)
            return scaled
        return samples


@dataclass(frozen=True)
class Survey:
    """What is known of an upload before it is used.

    Attributes:
        readings: One per part.
        mixes: One per rate and layout within a part.
    """

    readings: dict[int, Reading]
    mixes: dict[tuple[int, int, tuple[str, ...], int], Mix]

    def read(self, part: int, block: SoundBlock) -> SoundBlock:
        """The block with samples of -1..1."""
        return replace(block, samples=self.readings[part].apply(block))

    def mix(self, part: int, block: SoundBlock) -> Mix:
        """How the block's channels become one."""
        return self.mixes[_kind(part, block)]


def _kind(part: int, block: SoundBlock) -> tuple[int, int, tuple[str, ...], int]:
    return part, block.rate_hz, block.layout, block.samples.shape[1]


def survey(blocks: Iterable[tuple[int, SoundBlock]]) -> Survey:
    """Listen to everything once.

    Args:
        blocks: From `decoded_blocks`.

    Returns:
        What to make of the same blocks.

    Raises:
        AudioUnsupportedError: Floats that are larger than any integer format's.
        AudioInputError: What the blocks' iterator raises.
    """
    values: dict[int, _Values] = {}
    channels: dict[tuple[int, int, tuple[str, ...], int], ChannelSurvey | None] = {}
    for part, block in blocks:
        kind, count = _kind(part, block), block.samples.shape[1]
        if kind not in channels:
            channels[kind] = ChannelSurvey(block.layout, count, block.rate_hz) if count > 1 else None
        if (voices := channels[kind]) is not None:
            voices.hear(block.samples)
        values.setdefault(part, _Values()).see(block)
    mixes = {kind: plain_mix(1) if voices is None else voices.mix() for kind, voices in channels.items()}
    return Survey({part: seen.reading() for part, seen in values.items()}, mixes)


@dataclass
class _Values:
    """Counts of one part's sample values."""

    floats: int = 0
    above: list[int] = field(default_factory=lambda: [0] * len(FULL_SCALES))
    bytes_seen: int = 0
    steps: float = 0.0
    turned_steps: float = 0.0

    def see(self, block: SoundBlock) -> None:
        if block.sample_format in ("flt", "dbl"):
            size = np.abs(block.samples[block.samples != 0])
            self.floats += size.size
            if size.size and size.max() > FULL_SCALES[0]:
                for index, full in enumerate(FULL_SCALES):
                    self.above[index] += int((size > full).sum())
        elif block.sample_format == "u8":
            turned = np.where(block.samples < 0, block.samples + 1, block.samples - 1)
            self.bytes_seen += block.samples.size
            self.steps += float(np.abs(np.diff(block.samples, axis=0)).sum())
            self.turned_steps += float(np.abs(np.diff(turned, axis=0)).sum())

    def reading(self) -> Reading:
        turned = self.bytes_seen >= _LEAST_BYTES and self.turned_steps < SMOOTHER * self.steps
        for full, above in zip(FULL_SCALES, self.above, strict=True):
            if above <= STRAY_SHARE * self.floats:
                return Reading(1.0 if full == FULL_SCALES[0] else 1.0 / full, turned)
        raise AudioUnsupportedError(
            f"float samples beyond {FULL_SCALES[-1]:g}", "floats of -1 to 1, or integers of up to 32 bits as floats"
        )
