"""The whole Ditto chain in one process, of the product's own stages over random weights: what `benchmarks.ditto.chain` times.

Speed does not depend on the values of weights. The fast chain runs HuBERT and the motion model under CUDA graphs and the fast
renderer; the reference chain runs our own modules as the reference runs its: eager fp16, HuBERT window by window, two guidance
passes with nothing hoisted, one picture per call of the renderer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np
import torch

from benchmarks.ditto.reference_lmdm import ReferenceSampling
from engines.ditto import render_runtime
from engines.ditto.config import DittoConfig
from engines.ditto.face_synthesis import FaceSynthesis
from engines.ditto.hubert.graph import GraphedHubert
from engines.ditto.motion_runtime import compiled_runtime
from engines.ditto.source_reader import SourceReader
from engines.networks import build
from engines.networks.ditto.convolutions import fold_spectral
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.hubert_encoder import HubertEncoder
from engines.networks.ditto.warp_network import WarpNetwork
from engines.networks.lmdm import Lmdm
from engines.runtimes.protocol import Runtime
from engines.runtimes.torch import TorchRuntime
from kernels.arrays import F32
from pipeline.ditto.audio_features import DittoAudioFeatures, silence_rows
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.clip_motion import ClipSettings, DittoClipCarry, DittoClipMotion, rows_wanted
from pipeline.ditto.condition import emotion_sequence
from pipeline.ditto.face_landmarks import FoundFace
from pipeline.ditto.feature_windows import HOP_SAMPLES, OFFLINE_LEAD, ROWS_KEPT, WINDOW_SAMPLES
from pipeline.ditto.motion_diffusion import DittoMotionCarry, DittoMotionDiffusion, LiveSettings, start_carry
from pipeline.ditto.motion_windows import WindowSettings
from pipeline.ditto.registration import SourceModels, make_avatar
from pipeline.ditto.renderer import DittoEngines, DittoRenderer
from pipeline.stages import RenderRequest
from pipeline.types import FEATURE_RATE_HZ, Avatar, FeatureRows, MotionChunk, Nv12RectBatch

VERSION: Final = "benchmark0000000"
LIVE_STEPS: Final = 10
OFFLINE_STEPS: Final = 50
OFFLINE_OVERLAP: Final = 10
CHUNK: Final = 8
"""Frames per render call of a file."""
EncodeAll = Callable[[Sequence[F32]], list[F32]]


@dataclass(frozen=True)
class Chain:
    """Holds all stages for one way of running them.

    Attributes:
        encode_all: The speech encoder.
        live: Hop frames -> the live motion stage.
        clip: The motion stage of files.
        renderer: Pictures to the host included.
        avatar: The avatar whose face is drawn.
    """

    encode_all: EncodeAll
    live: dict[int, DittoMotionDiffusion]
    clip: DittoClipMotion
    renderer: DittoRenderer
    avatar: Avatar

    def start(self, hop: int) -> DittoMotionCarry:
        """A session's set-up, done before it speaks."""
        speaker, shown = unpack(self.avatar).speaker, np.zeros((1, 265), np.float32)
        empty = FeatureRows(np.zeros((0, 1024), np.float32), FEATURE_RATE_HZ, 0)
        _, prepared = self.live[hop].step(empty, start_carry(1, shown, speaker))
        return start_carry(1, shown, speaker, prepared=prepared)

    def speak(self, hop: int, window: F32, carry: DittoMotionCarry) -> tuple[Nv12RectBatch, DittoMotionCarry]:
        """Make one chunk, from PCM to NV12 rectangles on the host."""
        audio = DittoAudioFeatures(self.encode_all, hop, VERSION)
        chunk, after = self.live[hop].step(audio.window(window, carry.next_frame * 2), carry)
        return self.draw(chunk), after

    def draw(self, motion: MotionChunk) -> Nv12RectBatch:
        """Motion to NV12 rectangles on the host."""
        return self.renderer.render(RenderRequest(self.avatar.avatar_id, motion, None, 25, "bt709"))

    def file(self, pcm: F32) -> int:
        """A whole clip, PCM to NV12 rectangles on the host; the number of frames."""
        frames, wanted = -(-len(pcm) // 640), rows_wanted("offline", len(pcm))
        tail = np.zeros(WINDOW_SAMPLES + HOP_SAMPLES, np.float32)
        padded = np.concatenate([np.zeros(OFFLINE_LEAD, np.float32), pcm, tail])
        pieces = [padded[hop * HOP_SAMPLES :][:WINDOW_SAMPLES] for hop in range(-(-wanted // 5))]
        rows = np.concatenate([rows[ROWS_KEPT] for rows in self.encode_all(pieces)])
        carry = DittoClipCarry(unpack(self.avatar).speaker, 1, "offline", frames, wanted)
        result = self.clip.steps([(FeatureRows(rows, FEATURE_RATE_HZ, 0), carry)])[0]
        if not isinstance(result, tuple):
            raise result
        motion = result[0].motion
        for start in range(0, len(motion), CHUNK):
            self.draw(MotionChunk(motion[start : start + CHUNK], start))
        return len(motion)


def random_avatar() -> Avatar:
    """The drawn presenter, read by extractors with random weights."""
    from pipeline.presenter.draw import draw_presenter

    drawing = draw_presenter()
    reader = SourceReader(build("ditto/appearance_extractor"), build("ditto/motion_extractor"))
    face = FoundFace(drawing.landmarks[:, :2], drawing.landmarks)
    return make_avatar([drawing.rgb], [face], SourceModels(reader, DittoConfig(), VERSION), "benchmark")


def make_chain(device: str, avatar: Avatar, *, fast: bool, tiny: bool = False) -> Chain:
    """Build a chain; `tiny` shrinks HuBERT and the number of steps, for a dry run on a CPU."""
    torch.manual_seed(0)
    hubert = HubertEncoder(layers=2 if tiny else 24).eval().requires_grad_(False)
    lmdm = cast(Lmdm, build("ditto/lmdm", seed=5)).requires_grad_(False)
    encode_all = _graphed(hubert, device) if fast else _eager(hubert, device)
    live_steps, offline_steps = (2, 2) if tiny else (LIVE_STEPS, OFFLINE_STEPS)
    silence, emotion = silence_rows(encode_all), emotion_sequence(4)
    live_runtime = _sampler(lmdm, live_steps, device, fast)
    live = {
        hop: DittoMotionDiffusion(live_runtime, LiveSettings(emotion, hop, live_steps, version=VERSION), silence)
        for hop in (5, 10)
    }
    windows = WindowSettings(overlap=OFFLINE_OVERLAP, online=False)
    clip = DittoClipMotion(
        "offline",
        _sampler(lmdm, offline_steps, device, fast),
        ClipSettings(windows, emotion, offline_steps, VERSION),
        silence,
    )
    warp, decoder = build("ditto/warp_network", seed=1), build("ditto/decoder", seed=2)
    engines = DittoEngines(
        synthesis=_fast_synthesis(warp, decoder, device) if fast else _reference_synthesis(warp, decoder, device),
        stitch=build("ditto/stitch_network").requires_grad_(False),
        config=DittoConfig(),
        version=VERSION,
        batch=CHUNK if fast else 1,
    )
    return Chain(encode_all, live, clip, DittoRenderer(lambda _: avatar, engines), avatar)


def _half(device: str) -> torch.dtype:
    return torch.float32 if device == "cpu" else torch.float16


def _graphed(hubert: HubertEncoder, device: str) -> EncodeAll:
    return GraphedHubert(hubert, device, _half(device)).encode_all


def _eager(hubert: HubertEncoder, device: str) -> EncodeAll:
    dtype = _half(device)
    runtime = TorchRuntime(hubert.to(dtype), device)

    def encode_all(windows: Sequence[F32]) -> list[F32]:
        return [
            cast(F32, runtime.run(torch.from_numpy(window)[None].to(dtype))[0].float().cpu().numpy())
            for window in windows
        ]

    return encode_all


def _sampler(lmdm: Lmdm, steps: int, device: str, fast: bool) -> Runtime:
    if fast:
        return compiled_runtime(lmdm, steps, device, _half(device), (1, 2))
    return TorchRuntime(ReferenceSampling(lmdm, steps, _half(device)), device)


def _fast_synthesis(warp: torch.nn.Module, decoder: torch.nn.Module, device: str) -> Runtime:
    networks = cast(WarpNetwork, warp), cast(SpadeDecoder, decoder)
    return render_runtime.compiled_runtime(*networks, device, dtype=_half(device))


def _reference_synthesis(warp: torch.nn.Module, decoder: torch.nn.Module, device: str) -> Runtime:
    fold_spectral(decoder)
    return TorchRuntime(FaceSynthesis(warp, decoder), device)
