"""Ditto's stages over the public checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from engines.ditto.checkpoints import ditto_folder, load_network
from engines.ditto.config import DittoConfig, load_config
from engines.ditto.config_file import converted_folder
from engines.ditto.hubert.onnx import Hubert
from engines.ditto.hubert.runtime import hubert_runtime
from engines.ditto.motion_runtime import motion_runtime
from engines.ditto.render_runtime import render_runtime
from engines.ditto.source_reader import load_source_reader
from engines.ditto.version import AUDIO_FILES, MOTION_FILES, SOURCE_FILES, files_version
from engines.networks.lmdm import Lmdm
from engines.runtimes.kinds import RuntimeKind
from engines.weights.file import WeightsFileError
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.ditto.audio_features import DittoAudioFeatures, silence_rows
from pipeline.ditto.clip_motion import ClipMode, ClipSettings, DittoClipMotion
from pipeline.ditto.condition import emotion_sequence
from pipeline.ditto.feature_windows import HOP_FRAMES
from pipeline.ditto.motion_diffusion import ROW_DIM, DittoMotionDiffusion, LiveSettings
from pipeline.ditto.motion_modes import DittoMotionModes
from pipeline.ditto.motion_windows import SEQ_FRAMES, WindowSettings
from pipeline.ditto.registration import SourceModels
from pipeline.ditto.renderer import DEFAULT_CACHE_BYTES, DittoEngines, DittoRenderer
from pipeline.types import Avatar

Mode = Literal["offline", "online"]
_GPU_BATCH: Final = 8


def load_audio_features(
    folder: Path | None = None,
    device: str = "cpu",
    hop_frames: int = HOP_FRAMES,
    threads: int = 1,
    runtime: RuntimeKind = "auto",
) -> DittoAudioFeatures:
    """The speech encoder's stage.

    Args:
        folder: Checkpoint folder; None means where `weights pull ditto` puts it.
        device: Torch device name.
        hop_frames: Frames per hop, a multiple of 5.
        threads: CPU threads.
        runtime: How HuBERT runs; see `engines.ditto.hubert.runtime`.

    Raises:
        WeightsFileError: A file is missing or of no use.
        OnnxRuntimeMissingError: onnxruntime is not installed.
        RuntimeRefusedError: HuBERT cannot run the named way here.
    """
    root = ditto_folder(folder)
    encode_all = hubert_runtime(root, device, threads, runtime)
    return DittoAudioFeatures(encode_all, hop_frames, files_version(root, AUDIO_FILES))


def load_motion_modes(
    folder: Path | None = None,
    device: str = "cpu",
    hop_frames: int = HOP_FRAMES,
    steps: int | None = None,
    runtime: RuntimeKind = "auto",
) -> DittoMotionModes:
    """The motion stage, live and for files, over one network.

    Args:
        folder: See `load_audio_features`.
        device: Torch device name.
        hop_frames: Frames per hop, a multiple of 5.
        steps: DDIM steps of live motion; None takes the online configuration's.
        runtime: How the network runs; see `engines.runtimes.choice`.

    Raises:
        WeightsFileError: A file is missing or of no use.
        RuntimeRefusedError: It cannot run the named way here.
    """
    root = ditto_folder(folder)
    lmdm = load_lmdm(root)

    def make_clip(mode: ClipMode) -> DittoClipMotion:
        config = load_config(root, "offline" if mode == "offline" else "online")
        settings = clip_settings(mode, config, files_version(root, MOTION_FILES))
        sampler = motion_runtime(lmdm, settings.steps, device, runtime)
        return DittoClipMotion(mode, sampler, settings, load_silence_rows(root))

    return DittoMotionModes(load_motion_diffusion(root, device, hop_frames, steps, lmdm, runtime), make_clip)


def load_motion_diffusion(
    folder: Path | None = None,
    device: str = "cpu",
    hop_frames: int = HOP_FRAMES,
    steps: int | None = None,
    lmdm: Lmdm | None = None,
    runtime: RuntimeKind = "auto",
) -> DittoMotionDiffusion:
    """The motion stage, live.

    Args:
        folder: See `load_audio_features`.
        device: Torch device name.
        hop_frames: Frames per hop, a multiple of 5.
        steps: DDIM steps; None takes the online configuration's.
        lmdm: The network, where it is loaded already.
        runtime: See `load_motion_modes`.

    Raises:
        WeightsFileError: A file is missing or of no use.
        RuntimeRefusedError: The network cannot run the named way here.
    """
    root = ditto_folder(folder)
    config = load_config(root, "online")
    steps = steps or config.sampling_timesteps
    settings = live_settings(config, hop_frames, steps, files_version(root, MOTION_FILES))
    sampler = motion_runtime(load_lmdm(root) if lmdm is None else lmdm, steps, device, runtime)
    return DittoMotionDiffusion(sampler, settings, load_silence_rows(root))


def load_renderer(
    load_avatar: Callable[[str], Avatar],
    folder: Path | None = None,
    device: str = "cpu",
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    batch: int | None = None,
    runtime: RuntimeKind = "auto",
) -> DittoRenderer:
    """The renderer's stage.

    Args:
        load_avatar: Id -> avatar.
        folder: See `load_audio_features`.
        device: Torch device name.
        cache_bytes: Bound on prepared faces.
        batch: Frames per call of the networks; None: 1 on the CPU, 8 on a GPU.
        runtime: How the networks run; see `engines.ditto.render_runtime`.

    Raises:
        WeightsFileError: A file is missing or of no use.
        RuntimeRefusedError: The named runtime cannot be used here.
    """
    root = ditto_folder(folder)
    engines = DittoEngines(
        synthesis=render_runtime(load_network(root, "warp_network"), load_network(root, "decoder"), device, runtime),
        stitch=load_network(root, "stitch_network"),
        config=load_config(root, "online"),
        version=files_version(root, SOURCE_FILES),
        batch=batch or (1 if device == "cpu" else _GPU_BATCH),
    )
    return DittoRenderer(load_avatar, engines, cache_bytes)


def load_source_models(folder: Path | None = None, device: str = "cpu", mode: Mode = "online") -> SourceModels:
    """What registration runs.

    Raises:
        WeightsFileError: A file is missing or of no use.
    """
    root = ditto_folder(folder)
    return SourceModels(load_source_reader(root, device), load_config(root, mode), files_version(root, SOURCE_FILES))


def load_lmdm(folder: Path) -> Lmdm:
    """The motion model alone.

    Raises:
        WeightsFileError: The file is missing or of no use.
    """
    lmdm = load_network(folder, "lmdm")
    assert isinstance(lmdm, Lmdm)  # noqa: S101 - what the registry builds under this name
    return lmdm


def live_settings(config: DittoConfig, hop_frames: int, steps: int, version: str) -> LiveSettings:
    """A configuration's settings for the live motion stage; the overlap is 80 - hop, whatever the configuration says."""
    return LiveSettings(
        emotion=emotion_sequence(config.emo),
        hop_frames=hop_frames,
        steps=steps,
        reset_every=config.fix_kp_cond,
        reset_keeps=config.fix_kp_cond_dim or (0, 0),
        smooth_width=config.smo_k_d,
        limits=config.limits,
        version=version,
    )


def clip_settings(mode: ClipMode, config: DittoConfig, version: str) -> ClipSettings:
    """A configuration's settings for files.

    Raises:
        InvalidInputError: `compat` under an overlap at which the reference loses frames.
    """
    if mode == "compat" and config.overlap_v2 < SEQ_FRAMES // 2:
        raise InvalidInputError("overlap_v2", str(config.overlap_v2), f"{SEQ_FRAMES // 2} to {SEQ_FRAMES - 1}")
    windows = WindowSettings(
        overlap=config.overlap_v2,
        online=mode == "compat",
        reset_every=config.fix_kp_cond,
        reset_keeps=config.fix_kp_cond_dim or (0, 0),
        smooth_width=config.smo_k_d,
        limits=config.limits,
    )
    return ClipSettings(windows, emotion_sequence(config.emo), config.sampling_timesteps, version)


def load_silence_rows(folder: Path) -> F32:
    """Features of silence, float32 (5, 1024).

    They come from HuBERT the first time and later from a small file, so that the motion stage needs no HuBERT of its own.

    Raises:
        WeightsFileError: HuBERT's file is missing or of no use.
    """
    path = converted_folder(folder) / f"silence-{files_version(folder, AUDIO_FILES)}.safetensors"
    try:
        rows = load_arrays(path.read_bytes())["rows"]
        if rows.shape == (HOP_FRAMES, ROW_DIM):
            return np.asarray(rows, np.float32)
    except (OSError, KeyError, SafetensorError):
        rows = np.zeros(0)  # not there yet, or damaged: made below
    made = silence_rows(Hubert(folder).encode_all)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(save_arrays({"rows": made}))
        temporary.replace(path)
    except OSError as error:
        raise WeightsFileError(str(path), "", f"cannot be written ({error.strerror})") from error
    return made
