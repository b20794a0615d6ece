"""Integers that are not what their header says: bytes that are signed, words of the other byte order, floats named integers.

Read as the header says, each of them is noise at full scale. Sound of any kind changes less from sample to sample than such noise
does, and integers whose bits are all those of floats between -4 and 4 do not occur in sound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.arrays import F32, F64

SMOOTHER: Final = 0.25
"""Another reading is right where its roughness is below this share of that of the reading which the file names."""
LEAST_SAMPLES: Final = 100
ENOUGH_SAMPLES: Final = 1 << 21
"""Of one part; what comes after them is of the same form."""
FLOATS: Final = (1e-12, 4.0)
FLOAT_SHARE: Final = 0.98


@dataclass(frozen=True)
class Form:
    """What samples really are.

    Attributes:
        read: float32 (n, channels), -1..1, as the file says -> the same shape, as they are meant.
        counts: float32 (n, channels) -> float64 (4,), which add up over the blocks of a part.
        fits: Their sums -> whether the samples are of this form.
    """

    read: Callable[[F32], F32]
    counts: Callable[[F32], F64]
    fits: Callable[[F64], bool]


class FormSurvey:
    """Looks at the samples of one part and finds their form."""

    def __init__(self) -> None:
        self._seen = dict.fromkeys(FORMS, 0)
        self._counts = {name: np.zeros(4) for name in FORMS}

    def see(self, samples: F32, sample_format: str) -> None:
        """Add float32 (n, channels), -1..1, of FFmpeg's sample format."""
        if sample_format in FORMS and self._seen[sample_format] < ENOUGH_SAMPLES:
            self._seen[sample_format] += samples.size
            self._counts[sample_format] += FORMS[sample_format].counts(samples)

    def forms(self) -> dict[str, Form]:
        """FFmpeg's sample format -> what samples of it really are; without those that are what the file says."""
        return {
            name: form
            for name, form in FORMS.items()
            if self._seen[name] >= LEAST_SAMPLES and form.fits(self._counts[name])
        }


def _sign_turned(samples: F32) -> F32:
    return np.where(samples < 0, samples + np.float32(1), samples - np.float32(1))


def _bytes_swapped(samples: F32) -> F32:
    words = np.rint(samples * np.float32(32_768)).astype(np.int16)
    other: F32 = words.byteswap().astype(np.float32) / np.float32(32_768)
    return other


def _bits(samples: F32) -> F32:
    """32-bit integers as the floats that their bits are; the lowest 8 bits were lost when they became float32."""
    words = np.rint(samples.astype(np.float64) * 2.0**31).clip(-(2.0**31), 2.0**31 - 1).astype(np.int32)
    floats: F32 = words.view(np.float32)
    return floats


def _floats(samples: F32) -> F32:
    finite: F32 = np.nan_to_num(_bits(samples), nan=0.0, posinf=0.0, neginf=0.0).clip(-1.0, 1.0)
    return finite


def _steps(samples: F32) -> float:
    return float(np.abs(np.diff(samples, axis=0)).sum())


def _swing(samples: F32) -> float:
    return float(np.abs(samples - samples.mean(axis=0)).sum())


def _sign_counts(samples: F32) -> F64:
    return np.array([_steps(_sign_turned(samples)), _steps(samples), 1.0, 1.0])


def _order_counts(samples: F32) -> F64:
    other = _bytes_swapped(samples)
    return np.array([_steps(other), _steps(samples), _swing(other), _swing(samples)])


def _is_smoother(counts: F64) -> bool:
    """Steps of the other reading and of the file's own, each by its level."""
    other, own, other_level, own_level = counts
    return bool(own_level > 0 and other_level > 0 and other / other_level < SMOOTHER * own / own_level)


def _float_counts(samples: F32) -> F64:
    size = np.abs(_bits(samples[samples != 0]))
    return np.array([((size >= FLOATS[0]) & (size <= FLOATS[1])).sum(), size.size, 0.0, 0.0])


def _are_floats(counts: F64) -> bool:
    return bool(counts[1] >= LEAST_SAMPLES and counts[0] >= FLOAT_SHARE * counts[1])


FORMS: Final = {
    "u8": Form(_sign_turned, _sign_counts, _is_smoother),
    "s16": Form(_bytes_swapped, _order_counts, _is_smoother),
    "s32": Form(_floats, _float_counts, _are_floats),
}
"""FFmpeg's name of a sample format -> what samples that it names may be instead."""
