from __future__ import annotations

import gzip
from pathlib import Path

import av
import numpy as np
import pytest

from kernels.errors import InvalidInputError
from training import real_prompts
from training.phones import Phone
from training.utterance import SynthesisError

LISTING = """; comments
one: Please press the button [beep].
digits: Press 1 for a bell.
nothing: It is true.
absent: A map.
two/deep: Goodbye!
"""


@pytest.fixture()
def root(tmp_path: Path) -> Path:
    listing = tmp_path / real_prompts.TEXTS
    listing.parent.mkdir(parents=True)
    listing.write_bytes(gzip.compress(LISTING.encode()))
    for name, seconds in (("one", 1.5), ("digits", 1.0), ("nothing", 1.0), ("two/deep", 0.5)):
        path = tmp_path / real_prompts.SOUNDS / f"{name}.g722"
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w", format="g722") as container:
            stream = container.add_stream("g722", rate=16_000, layout="mono")
            tone = (8000 * np.sin(np.arange(int(seconds * 16_000)) * 0.1)).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(tone[None], format="s16", layout="mono")
            frame.sample_rate = 16_000
            for packet in (*stream.encode(frame), *stream.encode(None)):
                container.mux(packet)
    return tmp_path


def test_texts_without_closures_or_with_digits_are_left_out(root: Path) -> None:
    found = [(path.name, words) for path, words in real_prompts.texts(root)]
    assert found == [("one.g722", "please press the button"), ("deep.g722", "goodbye")]


def test_recordings_are_read_at_16_khz_and_short_or_strange_ones_are_left_out(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(real_prompts, "align", lambda pcm, words: [Phone("p", 0.0, len(pcm) / 16_000)])
    (one,) = real_prompts.load(root)
    assert one.duration_s == pytest.approx(1.5, abs=0.02) and one.voice == "real:prompts"
    assert 0.2 < np.abs(one.audio).max() < 0.3

    def refuse(pcm: object, words: str) -> list[Phone]:
        raise SynthesisError("no")

    monkeypatch.setattr(real_prompts, "align", refuse)
    assert real_prompts.load(root) == []


def test_missing_packages_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="asterisk-core-sounds-en-g722"):
        list(real_prompts.texts(tmp_path))
