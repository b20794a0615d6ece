"""The H.264 formats of an offer (RFC 6184): which of them our stream satisfies, and how the answer writes the chosen one.

We encode Constrained Baseline. Decoders of Baseline, Extended, Main, every High profile and High 4:4:4 must read it too (H.264,
annex A.2), so that an offer of Main alone is answered with Main: a format is accepted as it was offered or left out
(RFC 6184, section 8.2.2). Packetization mode 1 goes before mode 0, in which each packet holds one whole NAL unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

CONSTRAINED_BASELINE: Final = "42e0"
SPOKEN: Final = "H.264 Baseline, Main or High, packetization-mode 0 or 1"
BASELINE_IDC, EXTENDED_IDC, MAIN_IDC, HIGH_IDC = 0x42, 0x58, 0x4D, 0x64
INTRA_OR_BETTER: Final = (0x6E, 0x7A, 0xF4)
"""High 10, High 4:2:2 and High 4:4:4 Predictive; with `INTRA_ONLY`, the forms of them that know no prediction."""
INTRA_ONLY: Final = 0x10
CONSTRAINED: Final = 0x40
_PREFERENCE: Final = {EXTENDED_IDC: 2, MAIN_IDC: 3, HIGH_IDC: 4}
_PROFILE_LEVEL: Final = re.compile(r"[0-9a-f]{6}", re.IGNORECASE)
_MODES: Final = {"0": 0, "1": 1}


@dataclass(frozen=True)
class H264Format:
    """An offered format that our stream satisfies.

    Attributes:
        payload_type: Its number in the offer.
        profile: First four digits of `profile-level-id`: the profile and its constraints.
        level: Level that the client names, ten times the number (31 is level 3.1).
        mode: Packetization mode, 0 or 1.
        asymmetric: Whether the levels of the two directions may differ.
    """

    payload_type: int
    profile: str
    level: int
    mode: int
    asymmetric: bool

    def parameters(self, our_level: str) -> dict[str, str]:
        """Parameters of the answer's `a=fmtp`, for a stream of a level such as `4.0`."""
        ours = round(float(our_level) * 10)
        level = ours if self.asymmetric else min(ours, self.level)
        return {
            "level-asymmetry-allowed": "1",
            "packetization-mode": str(self.mode),
            "profile-level-id": f"{self.profile}{level:02x}",
        }


def read_format(payload_type: int, parameters: Mapping[str, str]) -> H264Format | None:
    """Read a format; None where our stream does not satisfy it, or where nothing can be made of its parameters.

    Args:
        payload_type: Its number.
        parameters: Its `a=fmtp` line, empty without one. A missing profile is Constrained Baseline, level 3.1, which is what
            WebRTC clients mean by it; a missing mode is 0.
    """
    named = parameters.get("profile-level-id", f"{CONSTRAINED_BASELINE}1f")
    mode = _MODES.get(parameters.get("packetization-mode", "0"))
    if mode is None or not _PROFILE_LEVEL.fullmatch(named) or not _decodes_baseline(named):
        return None
    asymmetric = parameters.get("level-asymmetry-allowed", "0") == "1"
    return H264Format(payload_type, named[:4].lower(), int(named[4:], 16), mode, asymmetric)


def preference(offered: H264Format) -> tuple[bool, int]:
    """Sorts the best format first: mode 1, then Constrained Baseline, Baseline, Extended, Main, High."""
    idc, constraints = int(offered.profile[:2], 16), int(offered.profile[2:], 16)
    rank = int(not constraints & CONSTRAINED) if idc == BASELINE_IDC else _PREFERENCE.get(idc, 5)
    return offered.mode == 0, rank


def _decodes_baseline(profile_level: str) -> bool:
    idc, constraints = int(profile_level[:2], 16), int(profile_level[2:4], 16)
    if idc in INTRA_OR_BETTER:
        return not constraints & INTRA_ONLY
    return idc in (BASELINE_IDC, EXTENDED_IDC, MAIN_IDC, HIGH_IDC)
