"""Errors of voices that speak text."""

from __future__ import annotations

from kernels.errors import InvalidInputError, LiveAnchorError


class TextTooLongError(InvalidInputError):
    """A text takes longer to say than speech may last."""

    code = "text_too_long"


class VoiceError(LiveAnchorError):
    """Base of what can be wrong with a voice.

    Attributes:
        told: What clients are told; the error's own words are for the operator and may hold those of another server.
    """

    told = ""


class VoiceMissingError(VoiceError):
    """There is no voice here: neither the embedded one nor a server is set.

    Args:
        lacking: What is not installed.
    """

    code = "voice_missing"
    told = "this service has no voice for text"

    def __init__(self, lacking: str) -> None:
        super().__init__(lacking)
        self.lacking = lacking

    def __str__(self) -> str:
        """Say in one line what to install or to set."""
        return (
            f"text needs a voice, and {self.lacking} is not installed: pip install 'liveanchor[speech]', "
            "or set voices.url (LIVEANCHOR_VOICES__URL) to a server of POST /v1/audio/speech"
        )


class VoiceUnreachableError(VoiceError):
    """The voice's server does not answer, or has too much work.

    Args:
        reason: What happened, without the address and the key.
    """

    code = "voice_unreachable"
    told = "the voice does not answer; send the text again a little later"
    retryable = True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line what happened and which setting names the server."""
        return f"the voice's server (voices.url) {self.reason}"


class VoiceFailedError(VoiceError):
    """The voice's server refused the request or answered something that is no speech, or the embedded voice broke.

    Args:
        reason: What happened, without the address and the key.
    """

    code = "voice_failed"
    told = "the voice could not say this text"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line what happened."""
        return f"the voice failed: {self.reason}"
