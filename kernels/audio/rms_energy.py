"""Loudness per video frame, and the hysteresis that turns it into a speech mask: what decides whether neural work is spent at all.

    rms[i] = sqrt(max(mean((s - mean(s))^2), 0))   over the window of samples centred on frame i; DC does not count

A frame is speech from the first one at or above `open_rms` until more than `hold_frames` frames in a row lie below `close_rms`.

`rms_energy_torch` (float64 inside, so that a faint tail is not lost) is the reference and the CPU path; CUDA tensors take
`kernels.audio.rms_energy_triton` (fp32, two passes over the window: as exact as the 24 bits of its input). The mask is a short
sequential scan with one state, which comes from the host and goes back to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError

DEFAULT_OPEN_RMS = 0.008
"""Full scale 1.0; the threshold of the published system."""
DEFAULT_CLOSE_RMS = 0.005
DEFAULT_HOLD_FRAMES = 12


@dataclass(frozen=True)
class Hysteresis:
    """The mask's state between calls, and its thresholds.

    Attributes:
        open_rms: A frame at or above this is speech.
        close_rms: While speaking, a frame below this is quiet; at most `open_rms`.
        hold_frames: Quiet frames in a row that still count as speech.
        speaking: State after the last frame seen.
        quiet_frames: Quiet frames in a row, up to the last frame seen.
    """

    open_rms: float = DEFAULT_OPEN_RMS
    close_rms: float = DEFAULT_CLOSE_RMS
    hold_frames: int = DEFAULT_HOLD_FRAMES
    speaking: bool = False
    quiet_frames: int = 0


def rms_energy(pcm: torch.Tensor, frame_samples: int = 640, window_samples: int | None = None) -> torch.Tensor:
    """Energy of every whole frame.

    Args:
        pcm: float32 (n,) or (b, n), nominally -1..1; samples after the last whole frame are only looked at through the window.
        frame_samples: Samples per video frame: 640 is 25 frames/s at 16 kHz.
        window_samples: Samples that count for a frame, centred on it and cut at the ends of `pcm`; None: the frame itself.

    Returns:
        float32 (n // frame_samples,), with the leading b of a batch.

    Raises:
        ShapeError: Wrong rank or dtype.
        InvalidInputError: `frame_samples` below 1, or a window shorter than a frame.
    """
    window = _validate(pcm, frame_samples, window_samples)
    if pcm.device.type == "cpu" or pcm.shape[-1] < frame_samples:
        return _energy_torch(pcm, frame_samples, window)
    from kernels.audio.rms_energy_triton import energy  # here, so that Triton is loaded on a GPU only

    return energy(pcm, frame_samples, window)


def rms_energy_torch(pcm: torch.Tensor, frame_samples: int = 640, window_samples: int | None = None) -> torch.Tensor:
    """The formula in float64 on any device; arguments, result and errors as in `rms_energy`."""
    return _energy_torch(pcm, frame_samples, _validate(pcm, frame_samples, window_samples))


def hysteresis_mask(rms: F32, state: Hysteresis) -> tuple[NDArray[np.bool_], bool, int]:
    """Scan frames in order.

    Args:
        rms: float32 (n,), on the host.
        state: Thresholds, and the state before the first of these frames.

    Returns:
        (n,) True where the frame counts as speech; then `speaking` and `quiet_frames` after the last one.
    """
    speech = np.empty(len(rms), dtype=np.bool_)
    speaking, quiet = state.speaking, state.quiet_frames
    for i, energy in enumerate(rms):
        loud = bool(energy >= (state.close_rms if speaking else state.open_rms))
        quiet = 0 if loud else quiet + 1
        speaking = loud or (speaking and quiet <= state.hold_frames)
        speech[i] = speaking
    return speech, speaking, quiet


def _energy_torch(pcm: torch.Tensor, frame_samples: int, window: int) -> torch.Tensor:
    total = pcm.shape[-1]
    frames = total // frame_samples
    if frames == 0:
        return pcm.new_empty((*pcm.shape[:-1], 0))
    samples = pcm.to(torch.float64)
    if window == frame_samples:
        cut = samples[..., : frames * frame_samples].reshape(*pcm.shape[:-1], frames, frame_samples)
        return cut.var(dim=-1, correction=0).clamp_(min=0.0).sqrt().to(torch.float32)
    before = (window - frame_samples) // 2
    bounds = [
        (max(i * frame_samples - before, 0), min(i * frame_samples - before + window, total)) for i in range(frames)
    ]
    spreads = [samples[..., first:last].var(dim=-1, correction=0) for first, last in bounds]
    return torch.stack(spreads, dim=-1).clamp_(min=0.0).sqrt().to(torch.float32)


def _validate(pcm: torch.Tensor, frame_samples: int, window_samples: int | None) -> int:
    if pcm.ndim not in (1, 2) or pcm.dtype != torch.float32:
        raise ShapeError("pcm", f"{pcm.dtype} {tuple(pcm.shape)}", "float32 (n,) or (b, n)")
    if frame_samples < 1:
        raise InvalidInputError("frame_samples", str(frame_samples), "1 or more")
    window = frame_samples if window_samples is None else window_samples
    if window < frame_samples:
        raise InvalidInputError("window_samples", str(window), f"{frame_samples} or more, one frame")
    return window
