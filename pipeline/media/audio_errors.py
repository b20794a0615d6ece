"""Why a piece of audio was refused; `field` is always `audio`."""

from __future__ import annotations

from kernels.errors import InvalidInputError


class AudioInputError(InvalidInputError):
    """Base of everything that can be wrong with the audio a caller handed in.

    Args:
        got: What came, shortened.
        allowed: What would be accepted.
        detail: One sentence for a person.
    """

    code = "audio_invalid"

    def __init__(self, got: str, allowed: str, detail: str = "") -> None:
        """Fix the field; keep only our own arguments in `args`, so that the error survives pickling."""
        super().__init__("audio", got, allowed, detail)
        self.args = (got, allowed, detail)


class AudioUnreadableError(AudioInputError):
    """No decoder understands the bytes, or the file cannot be opened."""

    code = "audio_unreadable"


class AudioNoStreamError(AudioInputError):
    """A media file without an audio stream."""

    code = "audio_no_stream"


class AudioEmptyError(AudioInputError):
    """Not one sample came out."""

    code = "audio_empty"


class AudioTooLongError(AudioInputError):
    """More seconds than allowed."""

    code = "audio_too_long"


class AudioTooLargeError(AudioInputError):
    """More bytes than allowed."""

    code = "audio_too_large"


class AudioUnsupportedError(AudioInputError):
    """A sample rate or channel count outside what is supported."""

    code = "audio_unsupported"
