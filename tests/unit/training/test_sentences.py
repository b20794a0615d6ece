import numpy as np
import pytest

from training import sentences, voices


def test_same_seed_same_texts() -> None:
    first = [sentences.draw(np.random.default_rng(5)) for _ in range(3)]
    assert first == [sentences.draw(np.random.default_rng(5)) for _ in range(3)]


def test_variety_no_slot_left_and_no_heldout_sentence() -> None:
    generator = np.random.default_rng(0)
    texts = [sentences.draw(generator) for _ in range(3000)]
    assert len(set(texts)) > 2500
    assert not any("{" in text or "}" in text for text in texts)
    assert not any(known in text for text in texts for known in sentences.heldout())


def test_heldout_set_is_large_enough_and_disjoint() -> None:
    assert len(set(sentences.heldout())) >= 20
    assert not set(sentences.heldout()) & set(sentences.lines("en_sentences"))
    assert len(voices.HELDOUT) >= 3


@pytest.mark.parametrize("language", sentences.LANGUAGES)
def test_every_language_speaks(language: str) -> None:
    generator = np.random.default_rng(1)
    assert language in voices.FOREIGN
    assert all(len(sentences.draw(generator, language)) > 4 for _ in range(10))


def test_heldout_voices_are_never_drawn() -> None:
    generator = np.random.default_rng(2)
    drawn = {voices.draw_voice(generator)[0] for _ in range(4000)}
    assert not drawn & set(voices.HELDOUT)
    variants = {voice.partition("+")[2] for voice in drawn}
    assert not variants & {"f4", "klatt4", "Andrea"}
    assert not any("scotland" in voice for voice in drawn)
    assert {"flite:slt", "flite:rms", "flite:kal", "flite:kal16"} <= drawn
