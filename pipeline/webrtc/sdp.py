"""Session descriptions as text: what an offer holds, what we answer, candidates that trickle."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiortc.sdp import MediaDescription, SessionDescription

from kernels.errors import InvalidInputError
from pipeline.webrtc.errors import NoCommonCodecError
from pipeline.webrtc.h264_formats import SPOKEN, H264Format
from pipeline.webrtc.offer_text import (
    CANDIDATE,
    END_OF_CANDIDATES,
    HOST_FIELD,
    MAX_CANDIDATES,
    TYPE_FIELD,
    PlainOffer,
    plain_offer,
    usable_candidate,
)

MAX_SDP_BYTES = 64_000
MAX_MEDIA = 12
SHOWN_CODECS = 12
_BY_CLIENT: Final = "an offer made by a WebRTC client"
_MID: Final = re.compile(r"[!-~]{1,256}")


@dataclass(frozen=True)
class OfferedMedia:
    """What an offer asks for.

    Attributes:
        kinds: Kinds of its sections in order: "video", "audio", "application".
        wants_video: The first video section receives.
        wants_audio: The first audio section receives.
        sends_audio: The first audio section sends.
        has_data: There is a section for data channels.
        h264: The format in which pictures are sent.
        text: The offer as aiortc reads it, with `h264` in the one spelling that it knows.
    """

    kinds: tuple[str, ...]
    wants_video: bool
    wants_audio: bool
    sends_audio: bool
    has_data: bool
    h264: H264Format
    text: str


@dataclass(frozen=True)
class TrickledCandidate:
    """An ICE candidate that came after the offer.

    Attributes:
        candidate: `candidate:...` as browsers write it; empty means that no more will come.
        sdp_mid: Which section, by its name.
        sdp_mline_index: Which section, by its position.
    """

    candidate: str
    sdp_mid: str | None = None
    sdp_mline_index: int | None = None


def read_offer(sdp: str, kind: str = "offer") -> OfferedMedia:
    """Check an offer and say what it asks for.

    Raises:
        InvalidInputError: Not an offer, too long, or not understood.
        NoCommonCodecError: No video section that receives H.264 as we send it, or a section for the voice without Opus.
    """
    if kind != "offer":
        raise InvalidInputError("type", kind[:40], "offer")
    if not sdp or len(sdp) > MAX_SDP_BYTES:
        raise InvalidInputError("sdp", f"{len(sdp)} characters", f"1 to {MAX_SDP_BYTES}")
    sections = sum(
        line.startswith("m=") for line in sdp.splitlines()
    )  # before they are parsed, which takes long for many
    if not 0 < sections <= MAX_MEDIA:
        raise InvalidInputError("sdp", f"{sections} media sections", f"1 to {MAX_MEDIA}")
    try:
        sdp.encode()  # a lone surrogate could not be answered
        plain = plain_offer(sdp)
        session = SessionDescription.parse(plain.text)
        media = session.media
    except (ValueError, LookupError, AttributeError, AssertionError, TypeError, StopIteration) as error:
        raise InvalidInputError("sdp", _shown(sdp), "a session description (RFC 8866)") from error
    _check_sections(media)
    video = next((section for section in media if section.kind == "video"), None)
    audio = next((section for section in media if section.kind == "audio"), None)
    if video is None or video.direction not in ("recvonly", "sendrecv"):
        raise NoCommonCodecError("sdp", "no video section that receives", "one that receives H.264")
    h264 = _check_codecs(plain, audio)
    _check_bundles(session)
    return OfferedMedia(
        kinds=tuple(section.kind for section in media),
        wants_video=True,
        wants_audio=audio is not None and audio.direction in ("recvonly", "sendrecv"),
        sends_audio=audio is not None and audio.direction in ("sendonly", "sendrecv"),
        has_data=any(section.kind == "application" for section in media),
        h264=h264,
        text=plain.text,
    )


def _check_codecs(plain: PlainOffer, audio: MediaDescription | None) -> H264Format:
    """The H.264 format to send; says what was offered and what is spoken where the two do not meet."""
    if plain.h264 is None:
        raise NoCommonCodecError("sdp", f"video: {_listed(plain.codecs.get('video', ()))}", SPOKEN)
    if audio is not None and not any(codec.mimeType.lower() == "audio/opus" for codec in audio.rtp.codecs):
        raise NoCommonCodecError("sdp", f"audio: {_listed(plain.codecs.get('audio', ()))}", "Opus")
    return plain.h264


def _listed(codecs: Sequence[str]) -> str:
    shown = ", ".join(codecs[:SHOWN_CODECS]) or "no codec"
    return f"{shown} and {len(codecs) - SHOWN_CODECS} more" if len(codecs) > SHOWN_CODECS else shown


def _check_sections(media: Sequence[MediaDescription]) -> None:
    """What aiortc takes for granted, and breaks over half way when it is not so."""
    for section in media:
        if section.ice is None or not section.ice.usernameFragment or not section.ice.password:
            raise InvalidInputError("sdp", "no ICE user name or password", _BY_CLIENT)
        if section.dtls is None or not section.dtls.fingerprints:
            raise InvalidInputError("sdp", "no DTLS fingerprint", _BY_CLIENT)
        if not _MID.fullmatch(section.rtp.muxId or ""):
            raise InvalidInputError("sdp", f"the section name {section.rtp.muxId!r:.40}", "a=mid of 1 to 256 letters")
    if len({section.rtp.muxId for section in media}) < len(media):
        raise InvalidInputError("sdp", "two sections of one name", "another a=mid for each")
    if sum(section.kind == "application" for section in media) > 1:
        raise InvalidInputError("sdp", "more than one section for data channels", "one")


def _check_bundles(session: SessionDescription) -> None:
    """The transport of a bundle's first section is that of the others; aiortc breaks half way where that section is missing."""
    names = {section.rtp.muxId for section in session.media}
    for group in session.group:
        items = [str(item) for item in group.items]
        if group.semantic == "BUNDLE" and items and items[0] not in names and names & set(items):
            raise InvalidInputError("sdp", f"a bundle led by {items[0]!r:.40}, which no section is", _BY_CLIENT)


def public_answer(sdp: str, public_ip: str) -> str:
    """The answer as seen from outside: host candidates of the public address's family carry it, each port once."""
    if not public_ip:
        return sdp
    version = ipaddress.ip_address(public_ip).version
    kept: list[str] = []
    seen: set[tuple[str, ...]] = set()
    for line in sdp.splitlines():
        if line.startswith("m="):
            seen.clear()
        if line.startswith(CANDIDATE):
            parts = line.split()
            if parts[TYPE_FIELD] == "host" and ipaddress.ip_address(parts[HOST_FIELD]).version == version:
                parts[HOST_FIELD] = public_ip
                line = " ".join(parts)
            key = tuple(parts[1:3] + parts[4:6])
            if key in seen:
                continue
            seen.add(key)
        elif line.startswith(f"c=IN IP{version} "):
            line = f"c=IN IP{version} {public_ip}"
        kept.append(line)
    return "\r\n".join(kept) + "\r\n"


def read_fragment(text: str) -> list[TrickledCandidate | None]:
    """Candidates of an `application/trickle-ice-sdpfrag` body (RFC 8840) that can be used; None stands for their end.

    Raises:
        InvalidInputError: Too long.
    """
    if len(text) > MAX_SDP_BYTES:
        raise InvalidInputError("body", f"{len(text)} characters", f"at most {MAX_SDP_BYTES}")
    found: list[TrickledCandidate | None] = []
    mid: str | None = None
    section = -1
    ended = False
    for line in text.splitlines():
        if line.startswith("m="):
            section, mid = section + 1, None
        elif line.startswith("a=mid:"):
            mid = line[len("a=mid:") :].strip()
        elif line.startswith(CANDIDATE) and len(found) < MAX_CANDIDATES and usable_candidate(line[2:]):
            index = max(section, 0) if mid is None else None
            found.append(TrickledCandidate(line[2:].strip(), mid, index))
        elif line.startswith(END_OF_CANDIDATES):
            ended = True
    return [*found, None] if ended else found


def _shown(sdp: str) -> str:
    """The first words of a description that is none; nothing secret stands there."""
    return repr(sdp.splitlines()[0][:40]) if sdp.splitlines() else "nothing"
