from pathlib import Path

import numpy as np
import pytest

from tests.support.require import missing
from training import flite, voices
from training.corpus import Item, load_corpus, load_shard, make_corpus, pad, save_shard, to_item
from training.espeak import Espeak
from training.phones import PHONES, SILENCE, Phone
from training.synthesisers import Tools, locate
from training.utterance import SynthesisError, Utterance


def fake(seconds: float = 0.5) -> Utterance:
    audio = np.full(int(16000 * seconds), 0.1, np.float32)
    return Utterance(audio, (Phone("m", 0.0, 0.2), Phone("ɑ", 0.2, seconds)), "espeak:test", "ma")


@pytest.fixture(scope="module")
def tools() -> Tools:
    try:
        return locate()
    except SynthesisError as error:
        missing("SYNTHESIS", str(error))


def test_pad_labels_the_silence() -> None:
    padded = pad(fake(), 0.1, 0.3)
    assert len(padded.audio) == 14400
    assert [p.symbol for p in padded.phones] == [SILENCE, "m", "ɑ", SILENCE]
    assert padded.phones[1].start_s == pytest.approx(0.1)
    assert padded.phones[-1].end_s == pytest.approx(0.9)
    assert not padded.audio[:1600].any()


def test_shard_round_trip(tmp_path: Path) -> None:
    items = [to_item(pad(fake(0.41), 0.1, 0.0)), to_item(fake())]
    save_shard(tmp_path, "shard-00000", items)
    loaded = list(load_corpus(tmp_path))
    assert len(loaded) == 2
    for before, after in zip(items, loaded, strict=True):
        np.testing.assert_array_equal(before.audio, after.audio)
        np.testing.assert_array_equal(before.labels, after.labels)
        assert [p.symbol for p in before.phones] == [p.symbol for p in after.phones]
        assert before.text == after.text


def test_labels_have_a_row_per_20_ms(tmp_path: Path) -> None:
    item = to_item(fake(0.41))
    assert len(item.labels) == 21
    assert [PHONES[i] for i in item.labels[[0, 9, 10, 19]]] == ["m", "m", "ɑ", "ɑ"]


def test_loud_speech_is_scaled_not_wrapped() -> None:
    loud = Utterance(np.array([0.0, 1.5, -1.5], np.float32), (), "v", "")
    assert to_item(loud).audio.tolist() == [0, 29490, -29490]


def test_another_inventory_is_refused(tmp_path: Path) -> None:
    save_shard(tmp_path, "shard-00000", [to_item(fake())])
    path = tmp_path / "shard-00000.json"
    path.write_text(path.read_text().replace('"sil"', '"quiet"', 1))
    with pytest.raises(SynthesisError, match="build the corpus again"):
        load_shard(path)


def test_real_synthesis_is_reproducible_and_resumable(tools: Tools, tmp_path: Path) -> None:
    report = make_corpus(tmp_path / "a", 0.006, seed=3, workers=1, tools=tools)
    assert report["items"] >= 2
    assert report["unknown_symbols"] == {}
    again = make_corpus(tmp_path / "a", 0.006, seed=3, workers=1, tools=tools)
    assert again["items"] == 0
    make_corpus(tmp_path / "b", 0.006, seed=3, workers=1, tools=tools)
    first: list[Item] = list(load_corpus(tmp_path / "a"))
    second = list(load_corpus(tmp_path / "b"))
    for one, two in zip(first, second, strict=True):  # some espeak variants flutter at random, by a few milliseconds
        assert one.text == two.text and one.voice == two.voice
        assert [p.symbol for p in one.phones] == [p.symbol for p in two.phones]
        assert len(one.audio) == pytest.approx(len(two.audio), rel=0.01)


@pytest.mark.parametrize("voice", ["flite:slt", "flite:kal", "espeak:en-us", "espeak:de+f3", "espeak:cmn-latn-pinyin"])
def test_voices_label_silence_where_there_is_none_to_hear(tools: Tools, voice: str) -> None:
    text = "ma1 ma5 mai3 mi3 fan4." if "cmn" in voice else "Mama, Papa, Bob."
    spoken = voices.speak(tools, Espeak(tools), voice, text)
    assert 0.8 < spoken.duration_s < 4.0
    assert spoken.phones[0].start_s == 0.0
    assert spoken.phones[-1].end_s == pytest.approx(spoken.duration_s, abs=1e-3)
    assert all(a.end_s == b.start_s for a, b in zip(spoken.phones, spoken.phones[1:], strict=False))
    loud = np.sqrt(np.mean(spoken.audio**2))
    for phone in spoken.phones:
        if phone.symbol == SILENCE and phone.end_s - phone.start_s > 0.1:
            inside = spoken.audio[int((phone.start_s + 0.04) * 16000) : int((phone.end_s - 0.04) * 16000)]
            assert np.sqrt(np.mean(inside**2)) < 0.12 * loud


def test_unknown_voices_are_typed_errors(tools: Tools) -> None:
    with pytest.raises(SynthesisError, match="no voice"):
        Espeak(tools).synthesise("hello", "xx-none")
    with pytest.raises(SynthesisError, match="flite did not run"):
        flite.synthesise(Tools(tools.espeak_library, None, Path("/nowhere/flite")), "hello")
