"""Lists the voices that speak the training corpus and the voices that are held out, and draws speakers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from training import espeak, flite
from training.kokoro import LANGUAGES as NEURAL_LANGUAGES
from training.kokoro import Kokoro
from training.synthesisers import Tools
from training.utterance import Utterance

ENGLISH_ACCENTS: Final = ("en-us", "en", "en-029", "en-gb-x-rp", "en-gb-x-gbclan", "en-gb-x-gbcwmd", "en-us-nyc")
FOREIGN: Final = {
    "de": "de", "fr": "fr", "es": "es", "it": "it", "pt": "pt-br", "pl": "pl", "ru": "ru", "nl": "nl", "cmn": "cmn-latn-pinyin",
    "cs": "cs", "fi": "fi",
}  # fmt: skip
"""Language of the text -> espeak voice."""

VARIANTS: Final = (
    "", "", "", "f1", "f2", "f3", "f5", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8",
    "klatt", "klatt2", "klatt3", "klatt5", "klatt6", "Alex", "Alicia", "Annie", "Denis", "Diogo", "Gene", "Henrique", "Hugo",
    "Jacky", "Lee", "Marco", "Mario", "Michael", "Mike", "Nguyen", "adam", "anika", "antonio", "aunty", "belinda", "benjamin",
    "boris", "caleb", "david", "ed", "edward", "grandma", "grandpa", "gustave", "ian", "iven", "iven3", "john", "linda", "max",
    "miguel", "norbert", "pablo", "paul", "pedro", "quincy", "rob", "robert", "sandro", "shelby", "steph", "steph2", "travis",
    "victor", "whisper", "zac",
)  # fmt: skip
"""espeak voice variants (vocal tract, source, intonation) used in training; the empty one is the plain voice."""

FLITE_SHARES: Final = {"slt": 0.34, "rms": 0.34, "kal16": 0.2, "kal": 0.12}
"""Share of each flite voice; `kal` has 8 kHz of bandwidth only."""

HELDOUT: Final = (
    "flite:awb",
    "espeak:en-gb-scotland",
    "espeak:en-us+f4",
    "espeak:en-us+klatt4",
    "espeak:en-gb-x-rp+Andrea",
)
"""Never trained on: a speaker, an accent, and three variants (in no language)."""


NEURAL_ENGLISH_SHARE: Final = 0.8
"""Share of English in what the neural voice says; the rest is spread evenly over its other languages."""


@dataclass(frozen=True)
class Speaker:
    """A voice that was drawn at random.

    Attributes:
        language: Language of the texts that it says.
        say: Speaks a text.
    """

    language: str
    say: Callable[[str], Utterance]


def speak(
    tools: Tools, engine: espeak.Espeak, voice: str, text: str, generator: np.random.Generator | None = None
) -> Utterance:
    """Say `text` with `engine:voice`; a generator varies rate, pitch and intonation, None takes the defaults."""
    kind, _, name = voice.partition(":")
    if kind == "flite":
        if generator is None:
            return flite.synthesise(tools, text, name)
        stretch = float(np.exp(generator.normal(0.0, 0.13)))
        return flite.synthesise(
            tools, text, name, float(np.clip(stretch, 0.72, 1.4)), float(generator.uniform(0.8, 1.3))
        )
    if generator is None:
        return engine.synthesise(text, name)
    return engine.synthesise(
        text,
        name,
        rate=int(np.clip(generator.normal(160, 28), 100, 250)),
        pitch=int(generator.integers(15, 86)),
        pitch_range=int(generator.integers(20, 91)),
        word_gap=int(generator.integers(1, 12)) if generator.random() < 0.12 else 0,
    )


def draw_voice(generator: np.random.Generator) -> tuple[str, str]:
    """A training voice and the language of its texts: 45 % flite, 35 % English espeak, 20 % espeak in another language."""
    kind = generator.random()
    if kind < 0.45:
        return "flite:" + str(generator.choice(list(FLITE_SHARES), p=list(FLITE_SHARES.values()))), "en"
    variant = str(generator.choice(VARIANTS))
    suffix = f"+{variant}" if variant else ""
    if kind < 0.80:
        return f"espeak:{generator.choice(ENGLISH_ACCENTS)}{suffix}", "en"
    language = str(generator.choice(list(FOREIGN)))
    return f"espeak:{FOREIGN[language]}{suffix}", language


def draw_speaker(tools: Tools, engine: espeak.Espeak, generator: np.random.Generator) -> Speaker:
    """A training voice of espeak-ng or flite."""
    voice, language = draw_voice(generator)
    return Speaker(language, lambda text: speak(tools, engine, voice, text, generator))


def draw_neural(kokoro: Kokoro, generator: np.random.Generator) -> Speaker:
    """A random speaker of the neural voice."""
    voice = kokoro.draw_voice(generator)
    others = sorted(set(NEURAL_LANGUAGES) - {"en"})
    language = "en" if generator.random() < NEURAL_ENGLISH_SHARE else str(generator.choice(others))
    accent = str(generator.choice(NEURAL_LANGUAGES[language]))
    return Speaker(language, lambda text: kokoro.synthesise(text, voice, accent))
