"""What the text benchmark counts as heard, and the rows that it makes of a client's report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("aiortc")

from benchmarks.agents import run
from benchmarks.agents.text_client import TEXTS, is_heard
from benchmarks.core.run_info import describe_run
from kernels.errors import LiveAnchorError
from pipeline.voices.sentences import sentences

REPORT: dict[str, list[float | None]] = {
    "sound_ms": [300.0, 320.0, 360.0],
    "lip_ms": [400.0, 410.0, 430.0],
    "file_sound_ms": [500.0, 520.0, 600.0],
    "file_lip_ms": [580.0, 610.0, 640.0],
    "voice_ms": [20.0, 40.0, 30.0],
}


def records(monkeypatch: pytest.MonkeyPatch, report: dict[str, list[float | None]]) -> list[Any]:
    class Client:
        def __init__(self, *arguments: str, module: str) -> None:
            assert module == "benchmarks.agents.text_client" and "--weights" in arguments

        def report(self) -> dict[str, Any]:
            return report

    monkeypatch.setattr(run, "ClientProcess", Client)
    monkeypatch.setattr(run, "wait_until_free", lambda url: 0.0)
    return list(run.text(run.Rig(describe_run("x", commit="0123abc"), "http://x", "a" * 32, 3, 1, 2)))


def test_loud_is_above_minus_40_dbfs() -> None:
    tone = np.sin(np.arange(960) * 0.1).astype(np.float32) * np.float32(np.sqrt(2))
    assert is_heard(0.0102 * tone) and not is_heard(0.0098 * tone) and not is_heard(np.zeros(960, np.float32))


def test_each_row_has_its_baseline_and_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    sound, lip = records(monkeypatch, REPORT)
    assert (sound.case, sound.value, sound.baseline_value, sound.floor_value) == (
        "text_to_first_sound_ms",
        320,
        520,
        90,
    )
    assert (lip.case, lip.value, lip.baseline_value, lip.floor_value) == ("text_to_first_lip_ms", 410, 610, 70)
    assert sound.ratio == pytest.approx(520 / 320, rel=1e-4) and sound.n == 3


def test_mouths_that_were_not_seen_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LiveAnchorError, match="only 1 of 3 texts were seen"):
        records(monkeypatch, REPORT | {"lip_ms": [None, 400.0, None]})


def test_texts_have_a_second_sentence_to_be_made_meanwhile() -> None:
    assert all(len(sentences(text, soon=True)) >= 2 for text in TEXTS)
