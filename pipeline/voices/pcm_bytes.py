"""Bytes of a server's speech -> samples, while they come: raw 16 bit PCM, or WAV, whatever was asked for."""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.media.resample import MAX_RATE_HZ, MIN_RATE_HZ
from pipeline.voices.errors import VoiceFailedError

FULL_SCALE: Final = 32768.0
MAX_HEADER_BYTES: Final = 65_536
"""Bytes in front of a WAV's samples; what is longer is none."""
_FOREIGN: Final = {b"ID3": "MP3", b"OggS": "Ogg", b"fLaC": "FLAC", b"\x1aE\xdf\xa3": "WebM"}
_PCM: Final = 1
_EXTENSIBLE: Final = 0xFFFE


class PcmBytes:
    """Turns a server's answer into float32 samples.

    A WAV may say 0 or 0xFFFFFFFF for its sizes, as servers write that do not know the length yet; its samples then go on to the
    end. A sample that the end of a piece cuts in two is completed by the next piece.

    Args:
        rate_hz: Rate of raw PCM, 8000 to 192000; a WAV tells its own.

    Attributes:
        rate_hz: Rate of the samples.
    """

    def __init__(self, rate_hz: int) -> None:
        self.rate_hz = rate_hz
        self._channels = 1
        self._rest = b""
        self._begun = False

    def push(self, data: bytes) -> F32:
        """Take a piece and return the samples that it completes, float32 (n,), mono; n may be 0.

        Raises:
            VoiceFailedError: Neither raw PCM nor a WAV of 16 bit PCM with one or two channels.
        """
        data = self._rest + data
        self._rest = b""
        if not self._begun:
            start = self._start_of(data)
            if start is None:
                self._rest = data
                return np.zeros(0, np.float32)
            self._begun, data = True, data[start:]
        whole = len(data) - len(data) % (2 * self._channels)
        self._rest = data[whole:]
        samples = np.frombuffer(data[:whole], "<i2").astype(np.float32) / np.float32(FULL_SCALE)
        mono: F32 = samples.reshape(-1, self._channels).mean(axis=1, dtype=np.float32)
        return mono

    def _start_of(self, data: bytes) -> int | None:
        """Where the samples begin; None while that is not certain."""
        if len(data) < 4:
            return None
        for magic, name in _FOREIGN.items():
            if data.startswith(magic):
                raise VoiceFailedError(f"the server sent {name}, where 16 bit PCM or WAV was asked for")
        if not data.startswith(b"RIFF"):
            return 0
        place = 12
        while place + 8 <= len(data):
            chunk, size = data[place : place + 4], struct.unpack_from("<I", data, place + 4)[0]
            if chunk == b"data":
                return place + 8
            if chunk == b"fmt ":
                if place + 8 + 16 > len(data):
                    break
                self._read_format(*struct.unpack_from("<HHIIHH", data, place + 8))
            place += 8 + size + size % 2
        if len(data) > MAX_HEADER_BYTES or place > MAX_HEADER_BYTES:
            raise VoiceFailedError("the server sent a WAV without samples")
        return None

    def _read_format(self, kind: int, channels: int, rate_hz: int, _bytes: int, _block: int, bits: int) -> None:
        if kind not in (_PCM, _EXTENSIBLE) or bits != 16 or channels not in (1, 2):
            raise VoiceFailedError(
                f"the server sent a WAV of format {kind}, {bits} bit, {channels} channels, not 16 bit PCM"
            )
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise VoiceFailedError(f"the server sent a WAV of {rate_hz} Hz, not {MIN_RATE_HZ} to {MAX_RATE_HZ}")
        self._channels, self.rate_hz = channels, rate_hz
