"""27 s of speech into 675 pictures, PCM to NV12 on the host: the product's stages, and the reference's loop."""

from __future__ import annotations

import queue
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import torch

from benchmarks.musetalk.news_clip import FRAMES
from engines.musetalk.painter import Painter
from engines.musetalk.speech import SpeechEncoder
from engines.runtimes.protocol import Runtime
from kernels.arrays import F32, U8
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.musetalk.audio_features import HOP_FRAMES, LOOKAHEAD_SAMPLES, PAST_SAMPLES, MuseTalkAudioFeatures
from pipeline.musetalk.audio_windows import LAYER_DIM, TOKENS, token_positions, window_rows, windows_of
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.musetalk.blend import fit_face, mix
from pipeline.musetalk.clip_place import clip_place
from pipeline.musetalk.renderer import MuseTalkEngines, MuseTalkRenderer
from pipeline.musetalk.spoken_frames import frames_of, start_carry
from pipeline.session.canvas import paste
from pipeline.session.overlap import DrawOrder
from pipeline.stages import RenderRequest
from pipeline.types import ROWS_PER_FRAME, SAMPLES_PER_FRAME, Avatar, Nv12Canvas

HOPS_A_CALL: Final = 9
REFERENCE_BATCH: Final = 8


@dataclass
class Spent:
    """What a run took.

    Attributes:
        seconds: From samples on the host to the last picture on the host.
        speech_s: In the stage of features, on its thread.
        paste_s: Spent on putting pictures together, on a thread of its own.
        bypassed: Frames that showed the avatar's own picture.
        frames: All of them.
    """

    seconds: float = 0.0
    speech_s: float = 0.0
    paste_s: float = 0.0
    bypassed: int = 0
    frames: int = 0
    checksum: int = field(default=0, repr=False)

    @property
    def fps(self) -> float:
        """Pictures a second."""
        return self.frames / self.seconds


def ours(pcm: F32, avatar: Avatar, speech: SpeechEncoder, painter: Runtime, batch: int) -> Spent:
    """One file as the product makes it: features in a thread, drawing in another, and whole pictures put together in this one.

    Every picture lies whole on the host, in the one canvas that an encoder would read.
    """
    audio = MuseTalkAudioFeatures(speech)
    renderer = MuseTalkRenderer(
        {avatar.avatar_id: avatar}.__getitem__, MuseTalkEngines(painter, unpack(avatar).version, batch)
    )
    renderer.prepare(avatar.avatar_id, "bt709")
    height, width = avatar.canvas_rgb.shape[:2]
    canvas = Nv12Canvas(*rgb_to_nv12(avatar.canvas_rgb))
    padded = np.pad(pcm, (PAST_SAMPLES, LOOKAHEAD_SAMPLES))
    hop, hops = HOP_FRAMES * SAMPLES_PER_FRAME, len(pcm) // SAMPLES_PER_FRAME // HOP_FRAMES
    drawing, spent = renderer.overlapped(), Spent()
    orders: queue.SimpleQueue[Future[Any] | None] = queue.SimpleQueue()
    room = threading.BoundedSemaphore(4 * drawing.frames_in_work // HOP_FRAMES)

    def listen() -> None:
        carry = start_carry(np.zeros((0, 1), np.float32), 0, 0)
        for first in range(0, hops, HOPS_A_CALL):
            asked = time.perf_counter()
            heard = audio.windows(
                [
                    (padded[i * hop : i * hop + audio.window_samples], i * HOP_FRAMES * ROWS_PER_FRAME)
                    for i in range(first, min(first + HOPS_A_CALL, hops))
                ]
            )
            spent.speech_s += time.perf_counter() - asked
            for rows in heard:
                motion, carry = frames_of(rows, carry)
                spent.bypassed += int((motion.motion[:, 0] == 0).sum())
                room.acquire()
                orders.put(drawing.submit(DrawOrder(RenderRequest(avatar.avatar_id, motion, None, 25, "bt709"))))

    began = time.perf_counter()
    with ThreadPoolExecutor(1) as ears:
        ears.submit(listen).add_done_callback(lambda _: orders.put(None))
        while (done := orders.get()) is not None:
            pictures = done.result()
            room.release()
            waited = time.perf_counter()
            for i in range(len(pictures)):
                paste(canvas, pictures.frame(i))
                spent.checksum += int(canvas.y_plane[height // 2, width // 2])
            spent.paste_s += time.perf_counter() - waited
            spent.frames += len(pictures)
    spent.seconds = time.perf_counter() - began
    drawing.close()
    return spent


def reference(pcm: F32, avatar: Avatar, canvases: list[U8], speech: SpeechEncoder, painter: Painter) -> Spent:
    """The reference's loop: features of the whole file, batches of eight, eager, every frame resized and blended on the host.

    Every frame is painted: the reference knows no bypass.
    """
    tensors, device = unpack(avatar), next(painter.parameters()).device
    latents = torch.from_numpy(np.array(tensors.latents)).to(device)
    count = len(pcm) // SAMPLES_PER_FRAME
    spent, began = Spent(frames=count), time.perf_counter()
    [rows] = speech.encode([pcm])
    spent.speech_s = time.perf_counter() - began
    tokens = windows_of(rows, window_rows(count, len(rows))).reshape(count, TOKENS, LAYER_DIM) + token_positions()
    for start in range(0, count, REFERENCE_BATCH):
        places = [clip_place(i, len(tensors)) for i in range(start, min(start + REFERENCE_BATCH, count))]
        with torch.inference_mode():
            said = torch.from_numpy(tokens[start : start + len(places)].astype(np.float32)).to(device)
            faces = painter(latents[places], said).cpu().numpy()
        for place, face in zip(places, faces, strict=True):
            picture = put_on_host(face, avatar, canvases[place].copy(), place)
            spent.checksum += int(rgb_to_nv12(picture)[0][0, 0])
    spent.seconds = time.perf_counter() - began
    return spent


def put_on_host(face: U8, avatar: Avatar, picture: U8, place: int) -> U8:
    """Resize and blend one face into a picture, in numpy and OpenCV."""
    tensors = unpack(avatar)
    box, (x, y) = tensors.box(place), (int(number) for number in tensors.corners[place])
    high, wide = tensors.masks.shape[1:]
    left, top = max(box.left, x), max(box.top, y)
    right, bottom = min(box.right, x + wide), min(box.bottom, y + high)
    fitted = fit_face(face, box)[top - box.top : bottom - box.top, left - box.left : right - box.left]
    mask = tensors.masks[place][top - y : bottom - y, left - x : right - x]
    picture[top:bottom, left:right] = mix(picture[top:bottom, left:right], fitted, mask)
    return picture


def check_length(spent: Spent) -> None:
    """Refuse a run that lost pictures."""
    if spent.frames != FRAMES:
        raise RuntimeError(f"{spent.frames} pictures came, {FRAMES} were asked for")
