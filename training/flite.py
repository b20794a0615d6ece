"""flite as a program: speech with phone end times (`-psdur`)."""

from __future__ import annotations

import io
import re
import subprocess
import tempfile
import wave
from pathlib import Path
from typing import Final

import numpy as np

from training.phones import Phone, from_arpabet, split, tidy
from training.synthesisers import Tools
from training.utterance import SynthesisError, Utterance, to_16k

VOICES: Final = ("kal", "kal16", "awb", "rms", "slt")
LABEL_OFFSET_S: Final = {"kal": 0.004, "kal16": 0.003, "awb": 0.0, "rms": 0.002, "slt": 0.008}
"""Added to every end time (measured: speech energy trails the labels by this much)."""
DIPHONE_PITCH_HZ: Final = {"kal": 105.0, "kal16": 105.0}
"""Mean pitch of the diphone voices, which take one in hertz; the others take a factor."""
_TOKEN: Final = re.compile(r"(\S+):([0-9.]+)")


def synthesise(
    tools: Tools,
    text: str,
    voice: str = "slt",
    stretch: float = 1.0,
    pitch: float = 1.0,
    timeout_s: float = 60.0,
) -> Utterance:
    """Speak English.

    Args:
        tools: Path of the program.
        text: Plain text.
        voice: One of `VOICES`.
        stretch: Duration factor, above 1 is slower.
        pitch: Factor on the voice's own pitch.
        timeout_s: Kill the program after this long.

    Raises:
        SynthesisError: The program is missing, failed, or printed nothing usable.
    """
    with tempfile.TemporaryDirectory(prefix="flite-") as folder:
        wav = Path(folder) / "out.wav"
        command = [str(tools.flite), "-voice", voice, "-psdur", "--setf", f"duration_stretch={stretch:.3f}"]
        mean_hz = DIPHONE_PITCH_HZ.get(voice)
        command += ["--setf", f"int_f0_target_mean={mean_hz * pitch:.1f}" if mean_hz else f"f0_shift={pitch:.3f}"]
        command += ["-o", str(wav), "-t", text]
        try:
            done = subprocess.run(  # noqa: S603 (our own fixed command; the text is one argument, no shell)
                command, env=tools.environment(), capture_output=True, text=True, timeout=timeout_s, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SynthesisError(f"flite did not run: {error}") from error
        if done.returncode or not wav.exists():
            raise SynthesisError(f"flite failed ({done.returncode}): {done.stderr.strip()[-300:]}")
        data = wav.read_bytes()
    with wave.open(io.BytesIO(data)) as reader:
        rate = reader.getframerate()
        pcm = np.frombuffer(reader.readframes(reader.getnframes()), np.int16)
    audio = to_16k(pcm.astype(np.float32) / 32768.0, rate)
    phones: list[Phone] = []
    cursor = base = LABEL_OFFSET_S.get(voice, 0.0)
    for name, end_text in _TOKEN.findall(done.stdout):
        end = base + float(end_text)
        if end < cursor - 1e-3:  # a new sentence counts from zero again
            base = cursor
            end = base + float(end_text)
        phones.extend(split(from_arpabet(name), cursor, end))
        cursor = end
    if not phones or len(audio) == 0:
        raise SynthesisError(f"flite made no speech with {voice!r}")
    return Utterance(audio, tuple(tidy(phones, len(audio) / 16_000)), f"flite:{voice}", text)
