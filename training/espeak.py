"""espeak-ng through its C API: speech with phoneme timings.

The library keeps global state: one instance per process, one call at a time.
"""

from __future__ import annotations

import ctypes as c
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from training.phones import SILENCE, Phone, from_ipa, split, tidy
from training.synthesisers import Tools
from training.utterance import SynthesisError, Utterance, to_16k

_AUDIO_OUTPUT_SYNCHRONOUS: Final = 2
_OPTION_PHONEME_EVENTS, _OPTION_IPA, _OPTION_DONT_EXIT = 1, 2, 0x8000
_EVENT_END_OF_LIST, _EVENT_PHONEME = 0, 7
_RATE, _VOLUME, _PITCH, _RANGE, _WORD_GAP = 1, 2, 3, 4, 7
_CHARS_UTF8: Final = 1
_IPA_SEPARATED: Final = 0x02 | ord("_") << 8
"""Phoneme mode: IPA, with `_` between the phonemes of a word."""

CLOSURE_MAX_S: Final = 0.070
"""espeak stamps a voiceless stop at its burst; the silence before it, at most this long, is its closure (measured: 45 ms)."""
EVENT_OFFSET_S: Final = -0.005
"""Added to every stamp (measured: speech energy leads the stamps by 4 to 6 ms)."""
SILENT_SHARE: Final = 0.04
"""A millisecond whose peak is below this share of the utterance's loud peak is silent (some voices have an echo)."""

REAL_PAUSE_S: Final = 0.060
_STOPS: Final = frozenset({"p", "t", "k", "tʃ"})


class _EventId(c.Union):
    _fields_ = [("number", c.c_int), ("name", c.c_char_p), ("string", c.c_char * 8)]


class _Event(c.Structure):
    _fields_ = [
        ("type", c.c_int),
        ("unique_identifier", c.c_uint),
        ("text_position", c.c_int),
        ("length", c.c_int),
        ("audio_position", c.c_int),
        ("sample", c.c_int),
        ("user_data", c.c_void_p),
        ("id", _EventId),
    ]


_CALLBACK = c.CFUNCTYPE(c.c_int, c.POINTER(c.c_short), c.c_int, c.POINTER(_Event))


class Espeak:
    """Speaks and transcribes with espeak-ng, whose library it loads.

    Args:
        tools: Paths of the library and its data.

    Raises:
        SynthesisError: The library or its data cannot be loaded.
    """

    def __init__(self, tools: Tools) -> None:
        try:
            self._library: Any = c.CDLL(str(tools.espeak_library))
        except OSError as error:
            raise SynthesisError(f"cannot load {tools.espeak_library}: {error}") from error
        data = str(tools.espeak_data).encode() if tools.espeak_data else None
        options = _OPTION_PHONEME_EVENTS | _OPTION_IPA | _OPTION_DONT_EXIT
        self._rate_hz = int(self._library.espeak_Initialize(_AUDIO_OUTPUT_SYNCHRONOUS, 0, data, options))
        if self._rate_hz <= 0:
            raise SynthesisError(f"espeak-ng did not start; is its data in {tools.espeak_data}?")
        self._pcm: list[NDArray[np.int16]] = []
        self._events: list[tuple[int, str]] = []
        self._callback = _CALLBACK(self._receive)  # kept alive: the library holds only the address
        self._library.espeak_SetSynthCallback(self._callback)
        self._library.espeak_TextToPhonemes.restype = c.c_char_p

    def transcribe(self, text: str, voice: str = "en-us") -> list[list[list[str]]]:
        """Transcribe what the voice would say, without saying it.

        Args:
            text: UTF-8 text in the language of the voice.
            voice: Voice name.

        Returns:
            Clauses of words of IPA symbols; a stress mark stands before the symbol that it belongs to, in the same string.

        Raises:
            SynthesisError: Unknown voice.
        """
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SynthesisError(f"espeak-ng has no voice {voice!r}")
        buffer = c.create_string_buffer(text.encode())
        rest = c.c_void_p(c.addressof(buffer))
        clauses: list[list[list[str]]] = []
        while rest.value:
            found: bytes | None = self._library.espeak_TextToPhonemes(c.byref(rest), _CHARS_UTF8, _IPA_SEPARATED)
            words = [[part for part in word.split("_") if part] for word in (found or b"").decode().split(" ")]
            clauses.append([word for word in words if word])
        return [clause for clause in clauses if clause]

    def _receive(self, pcm: Any, count: int, events: Any) -> int:
        """Collect samples and phoneme events; 0 tells the library to go on."""
        if pcm and count > 0:
            self._pcm.append(np.ctypeslib.as_array(pcm, (count,)).copy())
        i = 0
        while events[i].type != _EVENT_END_OF_LIST:
            if events[i].type == _EVENT_PHONEME:
                name = bytes(events[i].id.string).split(b"\0")[0].decode("utf-8", "ignore")
                self._events.append((int(events[i].audio_position), name))
            i += 1
        return 0

    def synthesise(
        self,
        text: str,
        voice: str = "en-us",
        rate: int = 160,
        pitch: int = 50,
        pitch_range: int = 50,
        word_gap: int = 0,
    ) -> Utterance:
        """Speak.

        Args:
            text: UTF-8 text in the language of the voice.
            voice: Voice name, with an optional variant: `en-us+f3`.
            rate: Words per minute, 80..400.
            pitch: 0..99.
            pitch_range: 0 (monotone)..99.
            word_gap: Extra pause between words in 10 ms.

        Returns:
            The utterance; phones of a language the voice switched to are included.

        Raises:
            SynthesisError: Unknown voice, or no sound came out.
        """
        lib = self._library
        if lib.espeak_SetVoiceByName(voice.encode()) != 0:
            raise SynthesisError(f"espeak-ng has no voice {voice!r}")
        for number, value in ((_RATE, rate), (_PITCH, pitch), (_RANGE, pitch_range), (_WORD_GAP, word_gap)):
            lib.espeak_SetParameter(number, value, 0)
        self._pcm.clear()
        self._events.clear()
        data = text.encode()
        lib.espeak_Synth(data, c.c_size_t(len(data) + 1), 0, 1, 0, _CHARS_UTF8, None, None)
        lib.espeak_Synchronize()
        if not self._pcm:
            raise SynthesisError(f"espeak-ng made no sound with {voice!r}")
        pcm = np.concatenate(self._pcm)
        phones = _phones(self._events, pcm, self._rate_hz)
        audio = to_16k(pcm.astype(np.float32) / 32768.0, self._rate_hz)
        return Utterance(audio, tuple(phones), f"espeak:{voice}", text)


def _phones(events: list[tuple[int, str]], pcm: NDArray[np.int16], rate_hz: int) -> list[Phone]:
    """Turn start stamps into phones; give voiceless stops the silent closure that precedes their stamp."""
    duration = len(pcm) / rate_hz
    events = _without_short_pauses(events, duration)
    kept = [(max(stamp / 1000.0 + EVENT_OFFSET_S, 0.0), name) for stamp, name in events if not name.startswith("(")]
    starts = [time for time, _ in kept] + [duration]
    limit = max(SILENT_SHARE * float(np.percentile(np.abs(pcm.astype(np.int32)), 99)), 12.0)
    symbols = [from_ipa(name) for _, name in kept]
    for i, parts in enumerate(symbols):
        if parts and parts[0] in _STOPS:
            floor = max(starts[i] - CLOSURE_MAX_S, starts[i - 1] + 0.01 if i else 0.0)
            starts[i] = max(floor, _silent_since(pcm, rate_hz, starts[i], limit))
    found: list[Phone] = []
    for i, parts in enumerate(symbols):
        if parts:
            found.extend(split(parts, starts[i], starts[i + 1]))
        elif found:  # a sound of no symbol (glottal stop) lengthens its predecessor
            last = found[-1]
            found[-1] = Phone(last.symbol, last.start_s, starts[i + 1])
        else:
            found.append(Phone(SILENCE, starts[i], starts[i + 1]))
    return tidy(found, duration)


def _without_short_pauses(events: list[tuple[int, str]], duration_s: float) -> list[tuple[int, str]]:
    """Drop nameless events shorter than `REAL_PAUSE_S`: sound goes on in them (measured), e.g. the approach to a trill.

    The time goes to the next phone when that is a stop or a trill, else to the one before.
    """
    kept: list[tuple[int, str]] = []
    moved: int | None = None
    for i, (stamp, name) in enumerate(events):
        following = events[i + 1][0] if i + 1 < len(events) else round(duration_s * 1000)
        if not name and kept and i + 1 < len(events) and following - stamp < REAL_PAUSE_S * 1000:
            moved = stamp if moved is None else moved
            continue
        if moved is not None and name[:1] in ("r", "ɾ", "p", "t", "k", "b", "d", "ɡ"):
            stamp = moved
        moved = None
        kept.append((stamp, name))
    return kept


def _silent_since(pcm: NDArray[np.int16], rate_hz: int, time_s: float, limit: float) -> float:
    """Start of the silence that ends within 4 ms of `time_s`; `time_s` itself when the speech before it is not silent."""
    step = rate_hz // 1000
    last = int((time_s - EVENT_OFFSET_S - 0.004) * 1000)
    start = last + 1
    while start > 0 and _peak(pcm, (start - 1) * step, step) < limit:
        start -= 1
    return time_s if start > last - 5 else start / 1000.0


def _peak(pcm: NDArray[np.int16], first: int, count: int) -> int:
    """Largest absolute sample of a short stretch; 0 beyond the end."""
    part = pcm[max(first, 0) : first + count].astype(np.int32)
    return int(np.abs(part).max()) if len(part) else 0
