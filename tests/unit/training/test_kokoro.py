from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.support.require import missing
from training.espeak import Espeak
from training.kokoro import (
    _PAUSE,
    _SPACE,
    LEAD_S,
    SPACE_SHARE,
    STEP_S,
    Kokoro,
    _Unit,
    model_file,
    phones_of,
    playing_rate,
    resize,
    rewrite,
)
from training.phones import SILENCE
from training.synthesisers import Tools, locate
from training.utterance import SynthesisError


@pytest.mark.parametrize(
    ("ipa", "letters"),
    [
        ("oʊ", "O"),
        ("aɪɚ", "Iəɹ"),
        ("ɑːɹ", "ɑɹ"),
        ("ɜː", "ɜɹ"),
        ("tʃ", "ʧ"),
        ("n̩", "ᵊn"),
        ("m", "m"),
        ("uː", "u"),
        ("", ""),
    ],
)
def test_ipa_becomes_the_networks_letters(ipa: str, letters: str) -> None:
    assert rewrite(ipa) == letters


def test_durations_become_phones() -> None:
    units = [_Unit("m", "m"), _Unit("aɪ", "ˈI"), _Unit(_SPACE, " "), _Unit("b", "b"), _Unit(_PAUSE, ".")]
    steps = np.array([4, 2, 1, 5, 2, 3, 8, 1], np.float32)
    phones = phones_of(units, steps * STEP_S, LEAD_S)
    assert [p.symbol for p in phones] == [SILENCE, "m", "aɪ", "b", SILENCE, SILENCE]
    space = (12 + 2 * SPACE_SHARE) * STEP_S
    ends = [4 * STEP_S, 6 * STEP_S, space, 17 * STEP_S, 25 * STEP_S, 26 * STEP_S]
    assert [p.end_s for p in phones] == pytest.approx([end - LEAD_S for end in ends], abs=1e-6)
    assert [p.start_s for p in phones[1:]] == pytest.approx([p.end_s for p in phones[:-1]])


def test_a_sound_without_a_symbol_lengthens_the_one_before() -> None:
    phones = phones_of([_Unit("ɑː", "ɑ"), _Unit("ʔ", "t")], np.array([1, 2, 2, 1], np.float32) * STEP_S, 0.0)
    assert [p.symbol for p in phones] == [SILENCE, "ɑ", SILENCE]
    assert phones[1].end_s == pytest.approx(5 * STEP_S)


def test_a_smaller_speaker_is_higher_and_shorter() -> None:
    time = np.arange(24_000) / 24_000
    tone = np.sin(2 * np.pi * 200 * time).astype(np.float32)
    small = resize(tone, 1.25)
    assert playing_rate(1.25) == 30_000 and len(small) == 12_800
    spectrum = np.abs(np.fft.rfft(small))
    assert np.argmax(spectrum) * 16_000 / len(small) == pytest.approx(250, abs=2)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(SynthesisError, match="fetch"):
        Kokoro(Tools(tmp_path / "x.so", None, tmp_path / "flite"), None)  # type: ignore[arg-type]  # never reached
    with pytest.raises(SynthesisError, match="incomplete"):
        model_file(tmp_path)


def test_espeak_transcribes_without_speaking() -> None:
    try:
        engine = Espeak(locate())
    except SynthesisError as error:
        missing("SYNTHESIS", str(error))
    clauses = engine.transcribe("Hello, my map. A big boat!", "en-us")
    assert len(clauses) == 3
    assert clauses[1] == [["m", "aɪ"], ["m", "ˈæ", "p"]]
    assert [symbol.lstrip("ˈˌ")[0] for word in clauses[2] for symbol in word if "b" in symbol] == ["b", "b"]
    with pytest.raises(SynthesisError, match="no voice"):
        engine.transcribe("hello", "xx-none")
