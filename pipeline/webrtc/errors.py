"""What can go wrong while a peer is set up."""

from __future__ import annotations

from kernels.errors import InvalidInputError, LiveAnchorError


class NoCommonCodecError(InvalidInputError):
    """The offer holds nothing that we send: HTTP 406."""

    code = "no_common_codec"


class TooManyViewersError(LiveAnchorError):
    """The session has all the viewers it may have."""

    code = "too_many_viewers"
    retryable = True


class UnknownViewerError(LiveAnchorError):
    """No viewer of that name; it may have left."""

    code = "unknown_viewer"


class PeerClosedError(LiveAnchorError):
    """The peer has ended already."""

    code = "peer_closed"
