import importlib.util
import wave
from pathlib import Path

import numpy as np
import pytest

from kernels.errors import InvalidInputError
from training.real_speech import align, read_wav, transcripts
from training.utterance import SynthesisError


def test_missing_data_names_the_package(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="pocketsphinx-testdata"):
        list(transcripts(tmp_path))


def test_transcripts_are_parsed(tmp_path: Path) -> None:
    (tmp_path / "librivox").mkdir()
    (tmp_path / "librivox" / "transcription").write_text("<s> he was not  </s> (a-1)\n\n<s> yes </s> (b)\n")
    assert list(transcripts(tmp_path)) == [
        (tmp_path / "librivox" / "a-1.wav", "he was not"),
        (tmp_path / "librivox" / "b.wav", "yes"),
    ]


def test_wav_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    with wave.open(str(path), "wb") as writer:
        writer.setnchannels(2)
        writer.setsampwidth(2)
        writer.setframerate(16000)
        writer.writeframes(b"\0" * 64)
    with pytest.raises(InvalidInputError, match="mono"):
        read_wav(path)


def test_words_outside_the_dictionary_are_a_typed_error() -> None:
    if importlib.util.find_spec("pocketsphinx") is None:
        with pytest.raises(SynthesisError, match="not installed"):
            align(np.zeros(16000, np.int16), "hello")
    else:
        with pytest.raises(SynthesisError, match="qqqzzz"):
            align(np.zeros(16000, np.int16), "hello qqqzzz")
