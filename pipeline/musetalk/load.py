"""MuseTalk's stages over the public checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from engines.musetalk.checkpoints import (
    has_parser,
    has_taesd,
    load_parser,
    load_taesd,
    load_unet,
    load_vae,
    load_whisper,
    musetalk_folder,
)
from engines.musetalk.painter import LatentReader, Painter
from engines.musetalk.painter_runtime import painter_runtime
from engines.musetalk.speech import SpeechEncoder
from engines.musetalk.version import latents_version, speech_version
from engines.runtimes.kinds import RuntimeKind
from pipeline.musetalk.audio_features import MuseTalkAudioFeatures
from pipeline.musetalk.face_labels import MeshLabels, ParserLabels
from pipeline.musetalk.registration import SourceModels
from pipeline.musetalk.renderer import DEFAULT_CACHE_BYTES, MuseTalkEngines, MuseTalkRenderer
from pipeline.types import Avatar

GPU_BATCH: Final = 32
"""Frames that a GPU draws at once, 18 ms of an H200: twice as many save a few percent, and everybody waits twice as long."""
_CPU_BATCH: Final = 4


def load_audio_features(folder: Path | None = None, device: str = "cpu") -> MuseTalkAudioFeatures:
    """The speech encoder's stage. It runs in one way, eagerly, whatever the painter's runtime is.

    Args:
        folder: Checkpoint folder; None means where `weights pull musetalk` puts it.
        device: Torch device name.

    Raises:
        WeightsFileError: A file is missing or of no use.
        ExtraMissingError: The extra `musetalk` is not installed.
    """
    root = musetalk_folder(folder)
    return MuseTalkAudioFeatures(SpeechEncoder(load_whisper(root), device, half=device != "cpu"), speech_version(root))


def load_renderer(
    load_avatar: Callable[[str], Avatar],
    folder: Path | None = None,
    device: str = "cpu",
    cache_bytes: int = DEFAULT_CACHE_BYTES,
    batch: int | None = None,
    runtime: RuntimeKind = "auto",
) -> MuseTalkRenderer:
    """The renderer's stage: the painter, with TAESD behind it where its weights are here, else with the autoencoder's decoder.

    Args:
        load_avatar: Id -> avatar.
        folder: See `load_audio_features`.
        device: Torch device name.
        cache_bytes: Bound on prepared faces.
        batch: Frames per call of the networks; None: 4 on the CPU, 32 on a GPU.
        runtime: How the networks run; see `engines.musetalk.painter_runtime`.

    Raises:
        WeightsFileError: A file is missing or of no use.
        ExtraMissingError: The extra `musetalk` is not installed.
        RuntimeRefusedError: It cannot run the named way.
    """
    root = musetalk_folder(folder)
    painter = Painter(load_unet(root), load_taesd(root) if has_taesd(root) else load_vae(root))
    largest = batch or (_CPU_BATCH if device == "cpu" else GPU_BATCH)
    chosen = painter_runtime(painter, device, runtime, largest)
    return MuseTalkRenderer(load_avatar, MuseTalkEngines(chosen, latents_version(root), largest), cache_bytes)


def load_source_models(folder: Path | None = None, device: str = "cpu") -> SourceModels:
    """What registration runs; parts of the face come from our own mesh where the face parser's weights are not here.

    Raises:
        WeightsFileError: A file is missing or of no use.
        ExtraMissingError: The extra `musetalk` is not installed.
    """
    root = musetalk_folder(folder)
    labels = ParserLabels(load_parser(root)) if has_parser(root) else MeshLabels()
    return SourceModels(LatentReader(load_vae(root), device), labels, latents_version(root))
