"""Opening a media file that a stranger handed in, with nothing allowed but reading its bytes as sound.

Only ordinary media containers and audio decoders are let in. Playlists, concat scripts and SDP, which make FFmpeg open other
files or sockets, are refused; so are pictures, whose decoders would allocate by what a header claims.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from pipeline.media.audio_errors import AudioEmptyError, AudioTooLargeError, AudioUnreadableError

if TYPE_CHECKING:
    from av.container import InputContainer

AudioSource = bytes | bytearray | memoryview | str | os.PathLike[str] | BinaryIO
READABLE = "an audio file (WAV, FLAC, MP3, AAC/M4A, Ogg, Opus, WebM, ...) or a video with sound"
ZIP_MAGIC = b"PK\x03\x04"
"""An MP3 stored in an archive would otherwise be found by FFmpeg's probing."""
CONTAINERS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dsf,dts,dtshd,eac3,flac,flv,gsm,iff,ircam,latm,loas,matroska,mlp,mov,"
    "mp3,mp4,mpc,mpc8,mpeg,mpegts,mxf,nistsphere,nut,ogg,oma,qcp,rm,shn,sox,tak,truehd,tta,voc,w64,wav,webm,wv"
)


@dataclass(frozen=True)
class AudioLimits:
    """What one caller may hand in.

    Attributes:
        max_seconds: Longest audio, counted on decoded samples.
        max_bytes: Largest file.
    """

    max_seconds: float = 600.0
    max_bytes: int = 256 * 1024 * 1024


@contextmanager
def opened_container(file: BinaryIO) -> Iterator[InputContainer]:
    """Open the container with nothing allowed but reading the bytes of a seekable file."""
    import av

    file.seek(0)
    if file.read(len(ZIP_MAGIC)) == ZIP_MAGIC:
        raise AudioUnreadableError("a ZIP archive", READABLE)
    file.seek(0)
    options = {"format_whitelist": CONTAINERS, "codec_whitelist": _audio_decoders(), "protocol_whitelist": "none"}
    try:
        container = av.open(file, "r", options=options, metadata_errors="replace")
    except (av.error.FFmpegError, ValueError, OSError) as error:
        raise AudioUnreadableError(f"bytes that no audio format matches ({error_reason(error)})", READABLE) from error
    with container:
        yield container


@contextmanager
def audio_file(source: AudioSource, limits: AudioLimits) -> Iterator[BinaryIO]:
    """A seekable binary file over the source, its size checked; closed afterwards only when it was opened here."""
    if isinstance(source, bytes | bytearray | memoryview):
        _check_size(memoryview(source).nbytes, limits)
        yield io.BytesIO(source)
    elif isinstance(source, str | os.PathLike):
        path = Path(source)
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise AudioUnreadableError(f"{path.name!r}, which is no regular file", READABLE)
            file = path.open("rb")
        except (OSError, ValueError) as error:
            raise AudioUnreadableError(f"{path.name!r}: {error_reason(error)}", READABLE) from error
        with file:
            _check_size(status.st_size, limits)
            yield file
    elif source.seekable():
        _check_size(source.seek(0, os.SEEK_END), limits)
        source.seek(0)
        yield source
    else:
        content = source.read(limits.max_bytes + 1)
        _check_size(len(content), limits)
        yield io.BytesIO(content)


def _check_size(size: int, limits: AudioLimits) -> None:
    if size == 0:
        raise AudioEmptyError("0 bytes", READABLE)
    if size > limits.max_bytes:
        raise AudioTooLargeError(
            f"{size} bytes" if size > limits.max_bytes + 1 else "too many bytes", f"at most {limits.max_bytes} bytes"
        )


@lru_cache(maxsize=1)
def _audio_decoders() -> str:
    """Comma-separated names of every audio decoder that the linked FFmpeg has."""
    import av

    names: list[str] = []
    for name in sorted(av.codecs_available):
        try:
            codec = av.Codec(name, "r")
        except av.codec.codec.UnknownCodecError:
            continue  # an encoder's name
        if codec.type == "audio":
            names.append(name)
    return ",".join(names)


def error_reason(error: Exception) -> str:
    """FFmpeg's or the system's short words for an error, without paths."""
    text = getattr(error, "strerror", None) or type(error).__name__
    return str(text)[:120]
