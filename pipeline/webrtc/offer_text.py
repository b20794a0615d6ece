"""An offer put into the words that aiortc reads: RFC 8866 allows several spellings, and leaves much to be understood."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from pipeline.webrtc.h264_formats import CONSTRAINED_BASELINE, H264Format, preference, read_format

MAX_CANDIDATES = 64
"""Usable candidates that one description or one session's trickle may hold; browsers send fewer than ten."""
CANDIDATE: Final = "a=candidate:"
END_OF_CANDIDATES: Final = "a=end-of-candidates"
COMPONENT_FIELD, TRANSPORT_FIELD, HOST_FIELD, PORT_FIELD, TYPE_FIELD = 1, 2, 4, 5, 7
"""Positions in a candidate line (RFC 8839, section 5.1)."""
STATIC_TYPES: Final = {
    "audio": {0: "PCMU/8000", 3: "GSM/8000", 8: "PCMA/8000", 9: "G722/8000", 13: "CN/8000", 18: "G729/8000"},
    "video": {26: "JPEG/90000", 31: "H261/90000", 34: "H263/90000"},
}
"""Payload numbers that need no `a=rtpmap` (RFC 3551, section 6)."""
_DIRECTIONS: Final = ("a=sendrecv", "a=sendonly", "a=recvonly", "a=inactive")
_CANONICAL: Final = f"packetization-mode=1;profile-level-id={CONSTRAINED_BASELINE}1f;level-asymmetry-allowed=1"


@dataclass(frozen=True)
class PlainOffer:
    """An offer that aiortc reads.

    Attributes:
        text: The description, with at most one H.264 format in its first video section: the best one, written as the only
            one that aiortc knows. The answer must name it by `h264`.
        h264: The chosen format; None where there is none that our stream satisfies.
        codecs: What each kind of media may be, as offered, for messages: "video" -> ("VP8", "H264 profile-level-id=f40028").
    """

    text: str
    h264: H264Format | None
    codecs: dict[str, tuple[str, ...]]


def plain_offer(sdp: str) -> PlainOffer:
    """Rewrite an offer.

    * Candidates that cannot be used are left out (`bounded_candidates`), and the mark of their end always: aioice would give up at
      once where none is left or none can be paired, though a client is found all the same by its own first check.
    * A section without direction has the session's, or sends and receives (RFC 8866, section 6.7).
    * Static payload numbers get their `a=rtpmap`, and parameters of a format that is not listed are left out.
    """
    session, sections = _split(bounded_candidates(sdp))
    direction = next((line.lower() for line in session if line.lower() in _DIRECTIONS), "a=sendrecv")
    read = [_Section([_spelled(line) for line in lines], direction) for lines in sections]
    video = next((section for section in read if section.kind == "video"), None)
    h264 = video.keep_best_h264() if video is not None else None
    codecs: dict[str, tuple[str, ...]] = {}
    for section in read:
        codecs.setdefault(section.kind, section.offered)
    lines = [_spelled(line) for line in session if line.lower() not in _DIRECTIONS]
    text = "\r\n".join([*lines, *(line for section in read for line in section.lines)]) + "\r\n"
    return PlainOffer(text, h264, codecs)


def bounded_candidates(description: str) -> str:
    """A description, offer or answer, with the first 64 of its candidates that can be used, and without the mark of their end.

    aioice pairs each candidate with all that it has, so that a thousand of them hold the event loop for seconds.
    """
    kept: list[str] = []
    taken = 0
    for line in description.splitlines():
        if line.startswith(END_OF_CANDIDATES):
            continue
        if line.startswith(CANDIDATE):
            if taken == MAX_CANDIDATES or not usable_candidate(line[2:]):
                continue
            taken += 1
        kept.append(line)
    return "\r\n".join(kept) + "\r\n"


def usable_candidate(candidate: str) -> bool:
    """Whether a candidate is one that we can send to: UDP, RTP's own component, the address of one machine and a port that exists.

    Names (`.local`) are left out, since resolving one takes a second, and so are link-local IPv6 addresses, which mean nothing
    without an interface of ours. A client behind one of them is found by its own first check.
    """
    parts = candidate.split()
    if len(parts) <= TYPE_FIELD or parts[TRANSPORT_FIELD].lower() != "udp":
        return False
    try:
        component, port = int(parts[COMPONENT_FIELD]), int(parts[PORT_FIELD])
        address = ipaddress.ip_address(parts[HOST_FIELD])
    except ValueError:
        return False
    if address.version == 6 and address.is_link_local:
        return False
    return component == 1 and 0 < port < 2**16 and not (address.is_multicast or address.is_unspecified)


class _Section:
    """A media section: its lines as aiortc reads them, and the codecs that it offers."""

    def __init__(self, lines: list[str], direction: str) -> None:
        words = lines[0][2:].split()
        self.kind = words[0] if words else ""
        listed = [int(word) for word in words[3:] if word.isdecimal()]
        if self.kind in STATIC_TYPES:
            if not any(line in _DIRECTIONS for line in lines):
                lines.append(direction)
            mapped = {_number(line) for line in lines if line.startswith("a=rtpmap:")}
            static = {one: name for one, name in STATIC_TYPES[self.kind].items() if one in listed and one not in mapped}
            lines += [f"a=rtpmap:{one} {name}" for one, name in static.items()]
            mapped |= set(static)
            lines = [line for line in lines if not line.startswith("a=fmtp:") or _number(line) in mapped]
        self.lines = lines
        self.offered = tuple(self._described())

    def keep_best_h264(self) -> H264Format | None:
        """Leave out all H.264 formats but the best one that our stream satisfies, and write that one as aiortc knows it."""
        numbers = [
            number
            for line in self.lines
            if line.startswith("a=rtpmap:") and _codec(line).lower() == "h264" and (number := _number(line)) is not None
        ]
        found = [read_format(number, self._parameters(number)) for number in numbers]
        usable = sorted((one for one in found if one is not None), key=preference)
        chosen = usable[0].payload_type if usable else None
        dropped = {number for number in numbers if number != chosen}
        self.lines = [line for line in self.lines if not (_is_of_format(line) and _number(line) in dropped)]
        if not usable:
            return None
        self.lines = [line for line in self.lines if not (line.startswith("a=fmtp:") and _number(line) == chosen)]
        self.lines.append(f"a=fmtp:{chosen} {_CANONICAL}")
        return usable[0]

    def _described(self) -> list[str]:
        names = []
        for line in self.lines:
            if line.startswith("a=rtpmap:") and (name := _codec(line)) and name.lower() != "rtx":
                number = _number(line)
                told = self._parameters(number) if name.lower() == "h264" and number is not None else {}
                shown = [f"{key}={told[key]}"[:40] for key in ("profile-level-id", "packetization-mode") if key in told]
                names.append(" ".join([name[:20], *shown]))
        return list(dict.fromkeys(names))

    def _parameters(self, number: int) -> dict[str, str]:
        found: dict[str, str] = {}
        for line in self.lines:
            if line.startswith("a=fmtp:") and _number(line) == number:
                pairs = (pair.partition("=") for pair in line.partition(" ")[2].split(";"))
                found |= {key: value for key, _, value in pairs if key}
        return found


def _split(sdp: str) -> tuple[list[str], list[list[str]]]:
    session: list[str] = []
    sections: list[list[str]] = []
    for line in sdp.splitlines():
        if line.startswith("m="):
            sections.append([line])
        elif sections:
            sections[-1].append(line)
        else:
            session.append(line)
    return session, sections


def _spelled(line: str) -> str:
    """A line in the one spelling that aiortc reads, of those that RFC 8866 and its companions allow."""
    line = line.rstrip()
    lower = line.lower()
    if lower in _DIRECTIONS or lower.startswith("a=setup:"):
        return lower
    if lower.startswith("a=fmtp:"):
        number, _, text = line.partition(" ")
        pairs = [pair.strip().partition("=") for pair in text.split(";") if pair.strip()]
        return f"{number} " + ";".join(f"{key.strip().lower()}{equals}{value.strip()}" for key, equals, value in pairs)
    if lower.startswith("a=extmap:"):
        return " ".join(line.split()[:2])  # an extension's own attributes (RFC 8285, section 8) are of no use here
    return line


def _number(line: str) -> int | None:
    """The payload number that an `a=rtpmap`, `a=fmtp` or `a=rtcp-fb` line is about."""
    word = line.partition(":")[2].partition(" ")[0]
    return int(word) if word.isdecimal() and len(word) <= 3 else None


def _codec(line: str) -> str:
    return line.partition(" ")[2].strip().partition("/")[0]


def _is_of_format(line: str) -> bool:
    return line.startswith(("a=rtpmap:", "a=fmtp:", "a=rtcp-fb:"))
