"""What this machine can run, and what to install for more: the facts behind `liveanchor doctor`."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec

from engines.weights.home import FACE_DIR_ENV, face_weights_dir, liveanchor_home
from kernels.errors import InvalidInputError
from pipeline.families import family_modules, find_family
from serve_app.cli.finding import Finding


def _python() -> Finding:
    return Finding("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")


def _cpu() -> Finding:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if cores < 2:
        return Finding("cpu", "optional", "1 core", "one 25 frames/s session wants 2 cores")
    return Finding("cpu", "ok", f"{cores} cores")


def _home() -> Finding:
    home = liveanchor_home()
    existing = next(p for p in (home, *home.parents) if p.exists())
    if not os.access(existing, os.W_OK):
        return Finding("data folder", "missing", f"{home} is not writable", "set LIVEANCHOR_HOME to a writable folder")
    free_gib = shutil.disk_usage(existing).free / 2**30
    if free_gib < 1:
        return Finding("data folder", "missing", f"{home}, {free_gib:.1f} GiB free", "free some space")
    return Finding("data folder", "ok", f"{home}, {free_gib:.0f} GiB free")


def _families() -> list[Finding]:
    """The families whose weights come with the package."""
    from engines.weights.errors import WeightsError

    found = []
    for name in family_modules():
        try:
            if (said := find_family(name).embedded()) is not None:
                found.append(Finding(f"family {name}", "ok", said))
        except WeightsError as error:
            advice = "reinstall LiveAnchor, or make them: make demo-weights"
            found.append(Finding(f"family {name}", "missing", str(error), advice))
    return found


def _face() -> Finding:
    folder = face_weights_dir()
    if not any(folder.glob("*.tflite")):
        if os.environ.get(FACE_DIR_ENV):
            advice = f"unset {FACE_DIR_ENV}, or let it name a folder with the two models"
            return Finding("face landmarks", "missing", f"none in {folder}", advice)
        return Finding(
            "face landmarks",
            "optional",
            "not pulled",
            "the first portrait fetches them; now: liveanchor weights pull face",
        )
    return Finding("face landmarks", "ok", str(folder))


def _gpu() -> Finding:
    import torch

    if not torch.cuda.is_available():
        families = family_modules()
        without = ", ".join(name for name in families if not find_family(name).needs_gpu)
        needing = ", ".join(name for name in families if find_family(name).needs_gpu)
        advice = f"needs none: {without}; needs an NVIDIA GPU: {needing}, RIFE"
        return Finding("gpu", "optional", "none", advice)
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding("gpu", "ok", f"{', '.join(names)}, torch {torch.__version__}")


def _encoder() -> Finding:
    from pipeline.media.encoder_nvenc import probe_nvenc

    reason = probe_nvenc()
    if reason is None:
        return Finding("video encoder", "ok", "h264_nvenc (a real frame was encoded)")
    return Finding("video encoder", "ok", f"libx264; NVENC cannot be used: {reason}")


def _tensorrt() -> Finding:
    from engines.tensorrt.library import FLAVOURS, Library, look_for

    looked = [look_for(flavour) for flavour in FLAVOURS]
    found = [f"{one.flavour} {one.version}" for one in looked if isinstance(one, Library)]
    if found:
        return Finding("tensorrt", "ok", ", ".join(found))
    reasons = ", ".join(f"{one.flavour}: {one.reason}" for one in looked if not isinstance(one, Library))
    return Finding(
        "tensorrt", "optional", reasons, "for TensorRT engines: pip install 'liveanchor[tensorrt]' or [tensorrt-rtx]"
    )


def _ray_cluster() -> Finding:
    if find_spec("ray") is None:
        return Finding("ray cluster", "optional", "none: Ray is not installed")
    from serve_app.cluster.address import answers, find_address

    try:
        address = find_address()
    except InvalidInputError as error:
        return Finding("ray cluster", "missing", str(error), "correct RAY_ADDRESS, or unset it")
    if address is None:
        return Finding("ray cluster", "ok", "none here: serve and generate start their own")
    if answers(address):
        return Finding("ray cluster", "ok", f"{address.target} answers: serve and generate use it")
    if address.named:
        found = f"nobody answers at {address.target}, which RAY_ADDRESS names"
        return Finding("ray cluster", "missing", found, "start it, or unset RAY_ADDRESS")
    found = f"nobody answers at {address.target}, which Ray remembers: serve and generate start their own"
    return Finding(
        "ray cluster", "optional", found, "ray stop makes Ray forget it; it ends every Ray process of this machine"
    )


def _package(title: str, module: str, distribution: str, advice: str) -> Callable[[], Finding]:
    def look() -> Finding:
        if find_spec(module) is None:
            return Finding(title, "optional", "not installed", advice)
        return Finding(title, "ok", f"{distribution} {metadata.version(distribution)}")

    return look


_LOOKS: tuple[Callable[[], Finding | list[Finding]], ...] = (
    _python,
    _cpu,
    _home,
    _families,
    _face,
    _gpu,
    _encoder,
    _package("ray serve", "ray", "ray", "for serving: pip install 'liveanchor[serve]'"),
    _ray_cluster,
    _package("webrtc", "aiortc", "aiortc", "for live sessions: pip install 'liveanchor[live]'"),
    _package(
        "voice for text",
        "hibari",
        "hibari-tts",
        "for --text: pip install 'liveanchor[speech]', or set voices.url to a server of POST /v1/audio/speech",
    ),
    _package("triton", "triton", "triton", "for GPU kernels: pip install 'liveanchor[gpu]'"),
    _tensorrt,
    _package(
        "onnxruntime", "onnxruntime", "onnxruntime", "for the ditto audio encoder: pip install 'liveanchor[onnx]'"
    ),
)


def diagnose() -> list[Finding]:
    """Look at everything, in the order a person would ask."""
    looked = [look() for look in _LOOKS]
    return [one for found in looked for one in (found if isinstance(found, list) else [found])]
