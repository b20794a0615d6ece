"""One phone inventory for every synthesiser and recogniser, and the way into it from IPA and from ARPABET.

The inventory is small on purpose: it keeps what the lips show and what an encoder can hear, and nothing else. Length, stress,
tone, aspiration, palatalisation, nasalisation and syllabicity are dropped; rare places of articulation join their nearest
neighbour; sequences written as one symbol (`aɪɚ`, `pf`, `ɔɪ`, `ts`) are split into parts that share the duration.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from kernels.arrays import U8


class PhoneClass(Enum):
    """Groups that behave alike on the lips."""

    SILENCE = "silence"
    BILABIAL = "bilabial"
    OPEN = "open_vowel"
    MID = "mid_vowel"
    CLOSE = "close_vowel"
    LABIODENTAL = "labiodental"
    ROUNDED = "rounded_consonant"
    OTHER = "other_consonant"


SILENCE: Final = "sil"

_CLASSES: Final[dict[PhoneClass, tuple[str, ...]]] = {
    PhoneClass.SILENCE: (SILENCE,),
    PhoneClass.BILABIAL: ("m", "b", "p"),
    PhoneClass.OPEN: ("ɑ", "a", "æ", "ɔ", "ʌ", "aɪ", "aʊ"),
    PhoneClass.MID: ("e", "ɛ", "o", "ə", "ɜ", "oʊ", "eɪ", "ø"),
    PhoneClass.CLOSE: ("i", "ɪ", "u", "ʊ", "y"),
    PhoneClass.LABIODENTAL: ("f", "v"),
    PhoneClass.ROUNDED: ("w",),
    PhoneClass.OTHER: tuple("tdnkɡŋszʃʒθðlɹjhxβ") + ("tʃ", "dʒ"),
}

PHONES: Final[tuple[str, ...]] = tuple(symbol for symbols in _CLASSES.values() for symbol in symbols)
"""Canonical symbols; the position is the integer label. Silence is 0."""

PHONE_INDEX: Final[dict[str, int]] = {symbol: i for i, symbol in enumerate(PHONES)}
PHONE_CLASS: Final[dict[str, PhoneClass]] = {symbol: group for group, symbols in _CLASSES.items() for symbol in symbols}
VOWELS: Final[frozenset[str]] = frozenset(
    symbol for symbol, group in PHONE_CLASS.items() if group in (PhoneClass.OPEN, PhoneClass.MID, PhoneClass.CLOSE)
)
BILABIALS: Final[frozenset[str]] = frozenset(_CLASSES[PhoneClass.BILABIAL])
ROUNDED: Final[frozenset[str]] = frozenset({"u", "ʊ", "o", "oʊ", "ɔ", "y", "ø", "w", "aʊ"})
"""Symbols whose lips are rounded at some time (`aʊ` at its end)."""


@dataclass(frozen=True)
class Phone:
    """A canonical phone of an utterance and its time.

    Attributes:
        symbol: Member of `PHONES`.
        start_s: First instant in seconds from the start of the audio.
        end_s: First instant after it; phones of an utterance tile it without gaps.
        stress: 0 none, 1 secondary, 2 primary; 0 where the source does not say.
    """

    symbol: str
    start_s: float
    end_s: float
    stress: int = 0


def _table(text: str) -> dict[str, tuple[str, ...]]:
    """Read `key=part+part` words; `key=` maps to nothing."""
    pairs = (word.split("=") for word in text.split())
    return {key: tuple(part for part in value.split("+") if part) for key, value in pairs}


_LETTERS: Final = {symbol: (symbol,) for symbol in PHONES if len(symbol) == 1} | _table(
    """
    g=ɡ ɢ=ɡ ɟ=dʒ c=k q=k ʈ=t ɖ=d ɗ=d ɓ=b ɲ=n ɳ=n ɴ=ŋ ɱ=v ʔ= ʕ=h ħ=h ɦ=h ɸ=f ʋ=v ç=ʃ ɕ=ʃ ʂ=ʃ ʑ=ʒ ʐ=ʒ ɧ=ʃ
    χ=x ɣ=x ʁ=x ʀ=x ʝ=j ɰ=ɡ r=l ɾ=d ɻ=ɹ ɽ=d ɺ=l ʎ=l ʟ=l ɫ=l ɭ=l ɬ=l ɮ=l ʍ=w ɥ=w ʙ=b ʘ=p ǀ=t ǃ=k
    ɒ=ɑ ɐ=ʌ ɶ=ø œ=ø ɵ=ø ɞ=ɜ ɘ=ə ɤ=o ɚ=ɜ ɝ=ɜ ɨ=ɪ ɯ=ʊ ʉ=u ʏ=y ᵻ=ɪ ᵿ=ʊ ʦ=t+s ʧ=tʃ ʤ=dʒ ʨ=tʃ ʥ=dʒ
    """
)
"""Base letters, after modifiers are stripped -> canonical symbols. Taps and trills do not round the lips as English /ɹ/ does."""

_JOINS: Final = {
    tuple(key.split(".")): value
    for key, value in _table(
        """
        a.ɪ=aɪ ɑ.ɪ=aɪ a.i=aɪ a.j=aɪ ʌ.ɪ=aɪ a.ʊ=aʊ ɑ.ʊ=aʊ a.u=aʊ æ.ʊ=aʊ ɑ.u=aʊ ʌ.ʊ=aʊ ʌ.u=aʊ
        o.ʊ=oʊ ə.ʊ=oʊ o.u=oʊ ɔ.ʊ=oʊ ɜ.ʊ=oʊ ə.u=oʊ e.ɪ=eɪ ɛ.ɪ=eɪ e.i=eɪ t.ʃ=tʃ d.ʒ=dʒ
        t.h=t p.h=p k.h=k tʃ.h=tʃ
        """
    ).items()
}
"""Pairs of mapped letters that are one canonical symbol."""

_ARPABET: Final = _table(
    """
    aa=ɑ ae=æ ah=ʌ ao=ɔ aw=aʊ ax=ə axr=ɜ ay=aɪ eh=ɛ er=ɜ ey=eɪ ih=ɪ ix=ɪ iy=i ow=oʊ oy=ɔ+ɪ uh=ʊ uw=u ux=u
    b=b ch=tʃ d=d dh=ð dx=d el=ə+l em=m en=n f=f g=ɡ hh=h hv=h jh=dʒ k=k l=l m=m n=n ng=ŋ nx=n p=p r=ɹ s=s
    sh=ʃ t=t th=θ v=v w=w y=j z=z zh=ʒ a=a e=e i=i o=o u=u
    pau=sil h#=sil brth=sil ssil=sil sil=sil <sil>=sil +spn+=sil +nsn+=sil (null)=
    """
)

_MODIFIERS: Final = frozenset({"Mn", "Lm", "Sk", "Nd", "Po", "Pd", "No", "Pc", "Zs"})
"""Unicode categories of length marks, stress, tone, diacritics and digits."""

unknown: Counter[str] = Counter()
"""Symbols that no rule knew, counted over the life of the process; a corpus build reports them."""


def from_ipa(symbol: str) -> tuple[str, ...]:
    """Canonical phones of one IPA symbol as espeak-ng writes it.

    Args:
        symbol: E.g. `aɪɚ`, `n̩`, `ɔ̃`, `tʰ`; may be empty (a pause).

    Returns:
        Canonical symbols in order, empty when the symbol has no sound of its own (glottal stop, bare modifier). Letters that
        no rule knows are left out and counted in `unknown`.
    """
    if not symbol.strip("_:ː ˈˌ"):
        return (SILENCE,) if not symbol.strip("_: ") else ()
    parts: list[str] = []
    for letter in unicodedata.normalize("NFD", symbol):
        if letter == "\u0327" and parts and parts[-1] == "k":  # NFD splits ç into c + cedilla
            parts[-1] = "ʃ"
        elif letter in _LETTERS:
            parts.extend(_LETTERS[letter])
        elif unicodedata.category(letter) not in _MODIFIERS:
            unknown[letter] += 1
    return _join(parts)


def _join(parts: Sequence[str]) -> tuple[str, ...]:
    """Merge diphthongs and affricates."""
    out: list[str] = []
    i = 0
    while i < len(parts):
        pair = tuple(parts[i : i + 2])
        merged = _JOINS.get(pair)
        out.extend(merged or (parts[i],))
        i += 2 if merged else 1
    return tuple(out)


def from_arpabet(symbol: str) -> tuple[str, ...]:
    """Canonical phones of one ARPABET symbol of flite, festival or a CMU recogniser, any case, stress digits allowed."""
    key = symbol.lower().rstrip("012")
    found = _ARPABET.get(key)
    if found is None:
        unknown[symbol] += 1
        return ()
    return found


def split(symbols: Sequence[str], start_s: float, end_s: float, stress: int = 0) -> list[Phone]:
    """Share one interval among the parts of a sequence: a vowel gets twice the time of a consonant."""
    weights = np.array([2.0 if symbol in VOWELS else 1.0 for symbol in symbols])
    edges = start_s + (end_s - start_s) * np.concatenate([[0.0], np.cumsum(weights) / max(weights.sum(), 1.0)])
    return [Phone(symbol, float(edges[i]), float(edges[i + 1]), stress) for i, symbol in enumerate(symbols)]


def tidy(phones: Iterable[Phone], duration_s: float) -> list[Phone]:
    """Make phones tile [0, duration_s]: drop empty ones, close gaps with silence, merge neighbouring silences."""
    out: list[Phone] = []
    cursor = 0.0
    for phone in phones:
        start, end = max(phone.start_s, cursor), min(phone.end_s, duration_s)
        if end - start < 1e-4:
            continue
        if start - cursor > 1e-4:
            _append(out, Phone(SILENCE, cursor, start))
        _append(out, Phone(phone.symbol, start, end, phone.stress))
        cursor = end
    if duration_s - cursor > 1e-4:
        _append(out, Phone(SILENCE, cursor, duration_s))
    return out


def _append(out: list[Phone], phone: Phone) -> None:
    """Append; a silence that touches a silence grows it."""
    if out and phone.symbol == SILENCE and out[-1].symbol == SILENCE:
        out[-1] = Phone(SILENCE, out[-1].start_s, phone.end_s)
    else:
        out.append(phone)


def rasterise(phones: Sequence[Phone], n_rows: int, rate_hz: float) -> U8:
    """Label of every row, uint8 (n_rows,): the phone at the row's centre, (i + 0.5) / rate_hz; silence outside."""
    centres = (np.arange(n_rows) + 0.5) / rate_hz
    if not phones:
        return np.zeros(n_rows, np.uint8)
    ends = np.array([phone.end_s for phone in phones])
    labels = np.array([PHONE_INDEX[phone.symbol] for phone in phones] + [0], np.uint8)
    found: U8 = labels[np.searchsorted(ends, centres, side="right")]
    found[centres < phones[0].start_s] = 0
    return found
