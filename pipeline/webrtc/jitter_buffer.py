"""Puts the packets of a voice back in order; gives up on a hole instead of waiting for it."""

from __future__ import annotations

from dataclasses import dataclass

WAIT_PACKETS = 3
"""A packet is lost when this many later ones have come: 60 ms at 20 ms a packet."""
RESTART_DISTANCE = 1000
"""A sequence number further away than this is a sender that began anew."""
MASK_16 = 0xFFFF


@dataclass(frozen=True)
class VoicePacket:
    """An RTP packet of a voice: `sequence` 16 bit, `timestamp` 32 bit at 48 kHz, `payload` one Opus packet."""

    sequence: int
    timestamp: int
    payload: bytes


class VoiceJitterBuffer:
    """Reorders by sequence number. A packet in its turn passes at once: nothing is held while nothing is missing.

    Attributes:
        lost: Packets given up.
        late: Packets that came after they had been given up, or twice.
    """

    def __init__(self, wait_packets: int = WAIT_PACKETS) -> None:
        self.lost = 0
        self.late = 0
        self._wait = wait_packets
        self._next: int | None = None
        self._held: dict[int, VoicePacket] = {}

    def add(self, packet: VoicePacket) -> list[VoicePacket]:
        """Take a packet and return all whose turn it is now, in order."""
        if self._next is None:
            self._next = packet.sequence
        ahead = (packet.sequence - self._next) & MASK_16
        behind = (self._next - packet.sequence) & MASK_16
        if min(ahead, behind) > RESTART_DISTANCE:
            self._held.clear()
            self._next = packet.sequence
        elif behind and behind <= RESTART_DISTANCE:
            self.late += 1
            return []
        if packet.sequence in self._held:
            self.late += 1
            return []
        self._held[packet.sequence] = packet
        if self._next not in self._held and len(self._held) >= self._wait:
            first = min(self._held, key=lambda sequence: (sequence - (self._next or 0)) & MASK_16)
            self.lost += (first - self._next) & MASK_16
            self._next = first
        return self._take()

    def _take(self) -> list[VoicePacket]:
        ready = []
        while self._next is not None and self._next in self._held:
            ready.append(self._held.pop(self._next))
            self._next = (self._next + 1) & MASK_16
        return ready
