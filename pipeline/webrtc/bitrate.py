"""How fast to encode: the slowest viewer's network, between a floor and a ceiling, without flapping."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

VOICE_KBPS = 50
"""Part of an estimate for the whole connection that is kept for the voice and RTCP."""
CHANGE_SHARE = 0.1
"""Smaller changes are not worth a change."""
RISE_INTERVAL_S = 1.0
FALL_INTERVAL_S = 0.2
RISE_FACTOR = 1.25
"""Largest step up."""
LOW_LOSS = 0.02
HIGH_LOSS = 0.10
LOSS_RECOVERY = 1.05
"""Growth of the loss limit per report with little loss."""
LOSS_INTERVAL_S = 0.8
"""Loss reports that come sooner after one that was counted are ignored."""


@dataclass
class _Viewer:
    estimate_kbps: float | None = None
    loss_limit_kbps: float | None = None
    loss_at: float = float("-inf")

    def limit(self) -> float:
        limits = [value for value in (self.estimate_kbps, self.loss_limit_kbps) if value is not None]
        return min(limits, default=float("inf"))


class BitrateControl:
    """Target bit rate of one encode that all viewers share.

    Each viewer's limit is the smaller of its receiver's estimate (REMB) and of a loss limit: above 10 % loss it falls by
    half the lost share, below 2 % it grows by 5 % per report, as the loss-based controller of Google Congestion Control
    (draft-ietf-rmcat-gcc-02, section 6). The target is the lowest limit. It falls at once and climbs by at most a quarter
    per second; changes below a tenth are left alone.

    Args:
        min_kbps: Floor.
        max_kbps: Ceiling.
        start_kbps: Before anything was heard.
        clock: Monotonic seconds.
    """

    def __init__(self, min_kbps: int, max_kbps: int, start_kbps: int, clock: Callable[[], float]) -> None:
        self._min, self._max = float(min_kbps), float(max_kbps)
        self._target = float(start_kbps)
        self._clock = clock
        self._viewers: dict[object, _Viewer] = {}
        self._changed_at = float("-inf")
        self._start = float(start_kbps)

    def on_estimate(self, viewer: object, bits_per_second: int) -> None:
        """A receiver's estimate of what its network carries."""
        self._viewer(viewer).estimate_kbps = max(bits_per_second / 1000 - VOICE_KBPS, 0.0)

    def on_loss(self, viewer: object, fraction: float) -> None:
        """The share of packets lost since the viewer's last report, 0..1."""
        entry, now = self._viewer(viewer), self._clock()
        if now - entry.loss_at < LOSS_INTERVAL_S:
            return
        entry.loss_at = now
        base = self._target if entry.loss_limit_kbps is None else entry.loss_limit_kbps
        if fraction > HIGH_LOSS:
            entry.loss_limit_kbps = max(min(base, self._target) * (1 - fraction / 2), self._min)
        elif fraction < LOW_LOSS and entry.loss_limit_kbps is not None:
            entry.loss_limit_kbps = base * LOSS_RECOVERY
            if entry.loss_limit_kbps > self._max:
                entry.loss_limit_kbps = None

    def remove(self, viewer: object) -> None:
        """The viewer is gone."""
        self._viewers.pop(viewer, None)

    def target_kbps(self) -> int:
        """The rate to encode at now; the same as before unless a change is due."""
        now = self._clock()
        limits = [entry.limit() for entry in self._viewers.values()]
        known = [limit for limit in limits if limit != float("inf")]
        wanted = min(known) if known else max(self._target, self._start)
        wanted = min(max(wanted, self._min), self._max)
        if wanted > self._target:
            wanted = min(wanted, self._target * RISE_FACTOR)
        small = abs(wanted - self._target) < CHANGE_SHARE * self._target and wanted not in (self._min, self._max)
        interval = FALL_INTERVAL_S if wanted < self._target else RISE_INTERVAL_S
        if wanted != self._target and not small and now - self._changed_at >= interval:
            self._target, self._changed_at = wanted, now
        return round(self._target)

    def _viewer(self, viewer: object) -> _Viewer:
        return self._viewers.setdefault(viewer, _Viewer())
