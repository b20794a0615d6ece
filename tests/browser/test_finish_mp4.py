"""The file that the page makes of the stream it played, in a real browser."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
import numpy as np
import pytest

from pipeline.config import EncoderSettings
from pipeline.media.audio_in import decode_audio
from pipeline.media.encoder import VideoFormat
from pipeline.media.fragmented_mp4 import FragmentedMp4Writer
from pipeline.types import Nv12Canvas
from tests.browser.boxes import top_boxes
from tests.browser.cdp import Page
from tests.browser.conftest import DEMO_SPEECH


@pytest.fixture
def page(browser: Page, url: str) -> Iterator[Page]:
    browser.open(url)
    yield browser
    browser.open("about:blank")


def packets(data: bytes) -> dict[str, list[tuple[Any, ...]]]:
    """Every packet of a file with its times, by kind of stream."""
    found: dict[str, list[tuple[Any, ...]]] = {"video": [], "audio": []}
    with av.open(io.BytesIO(data)) as container:
        for packet in container.demux():
            if packet.size:
                found[packet.stream.type].append(
                    (packet.pts, packet.dts, packet.duration, packet.is_keyframe, bytes(packet))
                )
    return found


@pytest.mark.parametrize(("fps", "sound"), [(25, True), (Fraction(60000, 1001), True), (50, False)])
def test_the_finished_file_holds_every_packet_at_its_time(page: Page, fps: Fraction | int, sound: bool) -> None:
    voice = decode_audio(DEMO_SPEECH).voice if sound else None
    with FragmentedMp4Writer(VideoFormat(64, 64, fps), voice, EncoderSettings(prefer="x264")) as writer:
        grey = Nv12Canvas(np.full((64, 64), 99, np.uint8), np.full((32, 64), 128, np.uint8))
        stream = b"".join(writer.write(grey) for _ in range(150)) + writer.finish()
    told = page.evaluate(
        "(async () => { const { finished } = await import('/static/finish_mp4.js');"
        f" const bytes = Uint8Array.from(atob({base64.b64encode(stream).decode()!r}), (one) => one.charCodeAt(0));"
        " const made = new Uint8Array(await finished(bytes).arrayBuffer());"
        " let text = ''; for (const one of made) text += String.fromCharCode(one); return btoa(text); })()"
    )
    made = base64.b64decode(told)
    assert top_boxes(made) == ["ftyp", "moov", "mdat"] and b"mvex" not in made
    assert packets(made) == packets(stream)
    with av.open(io.BytesIO(made)) as container:
        video = container.streams.video[0]
        assert video.frames == 150 and video.duration * video.time_base == 150 / Fraction(fps)
        at = made.index(b"mvhd")
        scale, duration = (int.from_bytes(made[at + 16 + skip : at + 20 + skip], "big") for skip in (0, 4))
        assert duration / scale == pytest.approx(container.duration / 1e6, abs=0.002)
