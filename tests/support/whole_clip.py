"""Motion of a whole clip as the reference makes it: `offline`, and `compat` (its online worker, frame for frame).

Both need the whole clip and hold results back; live sessions use `pipeline.ditto.motion_diffusion` instead.
"""

from __future__ import annotations

import numpy as np
import torch

from engines.ditto.config import DittoConfig
from engines.ditto.motion_sampler import session_noise
from engines.motion_layout import MOTION_DIM
from engines.runtimes.protocol import Runtime
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.ditto.audio_features import EncodeAll, silence_rows
from pipeline.ditto.blink_schedule import blink_indices
from pipeline.ditto.condition import Condition, emotion_sequence
from pipeline.ditto.feature_windows import HOP_FRAMES, keep_frames
from pipeline.ditto.motion_windows import SEQ_FRAMES, Sampler, WindowSettings
from pipeline.ditto.speaker import Speaker, to_offsets
from pipeline.types import SAMPLES_PER_FRAME
from tests.support.reference_features import offline_features, online_windows
from tests.support.reference_motion import OnlineMotion, offline_motion


class WholeClipMotion:
    """Motion offsets of whole clips.

    Args:
        encode_all: The speech encoder.
        sampler: Runs an `engines.ditto.motion_sampler.MotionSampler`.
        steps: Its DDIM steps.
        config: Offline configuration for `offline`, online one for `compat`.
        blink_gaps: See `pipeline.ditto.blink_schedule.blink_indices`.
    """

    def __init__(
        self,
        encode_all: EncodeAll,
        sampler: Runtime,
        steps: int,
        config: DittoConfig,
        blink_gaps: int | tuple[int, ...] = 0,
    ) -> None:
        self._encode_all = encode_all
        self._sampler = sampler
        self._steps = steps
        self._config = config
        self._blink_gaps = blink_gaps

    def offline(self, pcm: F32, speaker: Speaker, seed: int) -> F32:
        """Windows overlap and are blended from both sides, everything is smoothed once more at the end.

        Args:
            pcm: float32 (n,), 16 kHz mono, n >= 1.
            speaker: The avatar.
            seed: Session seed.

        Returns:
            Offsets float32 (ceil(n / 640), 265).

        Raises:
            InvalidInputError: No samples.
        """
        _need_samples(pcm)
        features = offline_features(pcm, lambda window: self._encode_all([window])[0])
        conditions = self._condition(speaker).rows(features, 0)
        motion = offline_motion(conditions, speaker.source, self._windows(online=False), self._sample(seed))
        return self._offsets(motion, motion[0], speaker, seed)

    def compat(self, pcm: F32, speaker: Speaker, seed: int) -> F32:
        """The reference's online worker, its emission cut to the clip's length.

        Args:
            pcm: float32 (n,), 16 kHz mono, n >= 1.
            speaker: The avatar.
            seed: Session seed.

        Returns:
            Offsets float32 (ceil(n / 640), 265). Where the reference gives nothing (clips of at most one block) the face is still.

        Raises:
            InvalidInputError: No samples, or an overlap below 40, at which the reference loses frames.
        """
        _need_samples(pcm)
        settings = self._windows(online=True)
        if settings.overlap < SEQ_FRAMES // 2:
            raise InvalidInputError("overlap_v2", str(settings.overlap), f"{SEQ_FRAMES // 2} to {SEQ_FRAMES - 1}")
        condition = self._condition(speaker)
        silence = np.tile(silence_rows(self._encode_all), (SEQ_FRAMES // HOP_FRAMES, 1))[: settings.overlap]
        worker = OnlineMotion(condition.rows(silence, -settings.overlap), speaker.source, settings, self._sample(seed))
        emitted, done, rows = [], 0, silence
        for window in online_windows(pcm):
            rows = keep_frames(self._encode_all([window])[0])
            emitted.append(worker.feed(condition.rows(rows, done)))
            done += len(rows)
        emitted.append(worker.finish(condition.rows(np.repeat(rows[-1:], SEQ_FRAMES, axis=0), done)))
        frames = -(-len(pcm) // SAMPLES_PER_FRAME)
        motion = np.concatenate(emitted)[:frames]
        if not len(motion) or worker.d0 is None:
            return np.zeros((frames, MOTION_DIM), np.float32)
        return self._offsets(motion, worker.d0, speaker, seed)

    def _windows(self, *, online: bool) -> WindowSettings:
        config = self._config
        return WindowSettings(
            overlap=config.overlap_v2,
            online=online,
            reset_every=config.fix_kp_cond,
            reset_keeps=config.fix_kp_cond_dim or (0, 0),
            smooth_width=config.smo_k_d,
            limits=config.limits,
        )

    def _condition(self, speaker: Speaker) -> Condition:
        return Condition(emotion_sequence(self._config.emo), speaker.eye_open, speaker.eye_ball, speaker.shape)

    def _sample(self, seed: int) -> Sampler:
        window = 0

        def sample(condition_frame: F32, conditions: F32) -> F32:
            nonlocal window
            noise = session_noise(seed, window, self._steps)[None]
            window += 1
            inputs = (torch.from_numpy(condition_frame)[None], torch.from_numpy(conditions)[None], noise)
            return np.asarray(self._sampler.run(*inputs)[0].float().cpu().numpy(), np.float32)

        return sample

    def _offsets(self, motion: F32, first: F32, speaker: Speaker, seed: int) -> F32:
        return to_offsets(motion, first, speaker, blink_indices(seed, 0, len(motion), self._blink_gaps))


def _need_samples(pcm: F32) -> None:
    if not len(pcm):
        raise InvalidInputError("audio", "0 samples", "at least one sample")
