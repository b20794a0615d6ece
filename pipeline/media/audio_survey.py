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
from pipeline.media.integer_forms import Form, FormSurvey

FULL_SCALES: Final = (4.0, 128.0, 32_768.0, 8_388_608.0, 2_147_483_648.0)
"""Floats up to 4 (12 dB over) are what floats should be and are clipped; beyond they are integers of 8, 16, 24 or 32 bits."""
STRAY_SHARE: Final = 0.01
"""Single wild samples do not decide what the others mean."""
LEAST_FLOAT: Final = 1e-20
"""Floats that never reach it (-400 dB) are the bits of small integers."""


@dataclass(frozen=True)
class Reading:
    """What sample values mean.

    Attributes:
        scale: Factor of floats.
        forms: FFmpeg's sample format -> what integers of it really are, where that is something else than the file says.
    """

    scale: float
    forms: dict[str, Form]

    def apply(self, block: SoundBlock) -> F32:
        """float32 (n, channels), -1..1."""
        samples = block.samples
        if block.sample_format in self.forms:
            return self.forms[block.sample_format].read(samples)
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
        AudioUnsupportedError: Floats that are larger than any integer format's, or too small for any sound.
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
    largest: float = 0.0
    above: list[int] = field(default_factory=lambda: [0] * len(FULL_SCALES))
    forms: FormSurvey = field(default_factory=FormSurvey)

    def see(self, block: SoundBlock) -> None:
        if block.sample_format not in ("flt", "dbl"):
            self.forms.see(block.samples, block.sample_format)
            return
        size = np.abs(block.samples[block.samples != 0])
        if size.size:
            self.floats += size.size
            self.largest = max(self.largest, float(size.max()))
            if size.max() > FULL_SCALES[0]:
                for index, full in enumerate(FULL_SCALES):
                    self.above[index] += int((size > full).sum())

    def reading(self) -> Reading:
        allowed = "floats of -1 to 1, or integers of up to 32 bits as floats"
        if 0 < self.largest < LEAST_FLOAT:
            raise AudioUnsupportedError(f"float samples of at most {self.largest:.0e}, as integers look", allowed)
        for full, above in zip(FULL_SCALES, self.above, strict=True):
            if above <= STRAY_SHARE * self.floats:
                return Reading(1.0 if full == FULL_SCALES[0] else 1.0 / full, self.forms.forms())
        raise AudioUnsupportedError(f"float samples beyond {FULL_SCALES[-1]:g}", allowed)
