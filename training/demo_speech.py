"""Make the speech sample of `make demo` (`docs/demo/speech.wav`) from a text of our own."""

from __future__ import annotations

import argparse
import wave
from pathlib import Path
from typing import Final

import numpy as np
from scipy.signal import butter, sosfiltfilt

from pipeline.types import SAMPLE_RATE_HZ
from training import flite
from training.corpus import pad
from training.synthesisers import Tools, locate
from training.utterance import Utterance

TEXT: Final = (
    "Hello, and welcome! I am your presenter. Give me a portrait and a voice, "
    "and my lips will move with every word. Maybe we should begin?"
)
VOICE: Final = "slt"
STRETCH: Final = 1.02
PITCH: Final = 1.03
PEAK: Final = 0.7
DEFAULT_PATH: Final = Path(__file__).resolve().parent.parent / "docs" / "demo" / "speech.wav"


def synthesise(tools: Tools) -> Utterance:
    """The sample with its phone timings: rumble below 70 Hz removed without moving anything, peak at -3 dB."""
    spoken = flite.synthesise(tools, TEXT, VOICE, STRETCH, PITCH)
    clean = sosfiltfilt(butter(2, 70.0, "highpass", fs=SAMPLE_RATE_HZ, output="sos"), spoken.audio.astype(np.float64))
    clean *= PEAK / np.abs(clean).max()
    return pad(Utterance(clean.astype(np.float32), spoken.phones, spoken.voice, spoken.text), 0.2, 0.3)


def save_wav(audio: np.ndarray, path: Path) -> None:
    """Write mono 16-bit PCM at 16 kHz."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SAMPLE_RATE_HZ)
        writer.writeframes(np.round(audio * 32767.0).astype("<i2").tobytes())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_PATH)
    path: Path = parser.parse_args().out
    sample = synthesise(locate())
    save_wav(sample.audio, path)
    print(f"{path}: {sample.duration_s:.2f} s, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
