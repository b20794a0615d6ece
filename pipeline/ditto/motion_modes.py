"""Stage `motion_diffusion` of Ditto in all its modes: the carry of a call says which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, cast

from engines.weights.file import WeightsFileError
from kernels.errors import LiveAnchorError
from pipeline.ditto.clip_motion import ClipMode, DittoClipCarry, DittoClipMotion
from pipeline.ditto.motion_diffusion import DittoMotionCarry, DittoMotionDiffusion
from pipeline.stages import MotionItem
from pipeline.types import FeatureRows, MotionChunk

DittoCarry = DittoMotionCarry | DittoClipCarry
Result = tuple[MotionChunk, DittoCarry] | LiveAnchorError
USUAL_MODE: Final[ClipMode] = "offline"
_CLIP_MODES: Final[tuple[ClipMode, ...]] = ("offline", "compat")


class DittoMotionModes:
    """Live motion and files' motion over the same network. The modes of files are made at first use, or by `probe`.

    Args:
        live: `low_latency`.
        make_clip: Makes the others.
    """

    def __init__(self, live: DittoMotionDiffusion, make_clip: Callable[[ClipMode], DittoClipMotion]) -> None:
        self.live = live
        self._make_clip = make_clip
        self._clips: dict[ClipMode, DittoClipMotion] = {}

    @property
    def hop_frames(self) -> int:
        """New frames per window when live."""
        return self.live.hop_frames

    @property
    def history_frames(self) -> int:
        """Frames of past motion that live speech starts from."""
        return self.live.history_frames

    def step(self, rows: FeatureRows, carry: DittoCarry) -> tuple[MotionChunk, DittoCarry]:
        """Run one call alone.

        Raises:
            LiveAnchorError: What the mode refuses.
        """
        result = self._clip(rows, carry) if isinstance(carry, DittoClipCarry) else self.live.step(rows, carry)
        if isinstance(result, LiveAnchorError):
            raise result
        return result

    def steps(self, items: Sequence[MotionItem[DittoCarry]]) -> list[Result]:
        """Calls of several sessions; those of one mode share network calls, a bad item fails alone."""
        results: dict[int, Result] = {}
        for mode in _CLIP_MODES:
            mine = [(i, one.rows, one.carry) for i, one in enumerate(items) if isinstance(one.carry, DittoClipCarry)]
            group = [(i, rows, carry) for i, rows, carry in mine if carry.mode == mode]
            if group:
                made = self._mode(mode).steps([(rows, carry) for _, rows, carry in group])
                results.update(zip([i for i, _, _ in group], made, strict=True))
        rest = [i for i in range(len(items)) if i not in results]
        if rest:
            live = [MotionItem(items[i].rows, cast(DittoMotionCarry, items[i].carry)) for i in rest]  # checked there
            results.update(zip(rest, self.live.steps(live), strict=True))
        return [results[i] for i in range(len(items))]

    def probe(self, sessions: int = 1) -> None:
        """Try the network as `DittoMotionDiffusion.probe` does; all modes run the same network.

        Files' usual mode is made now where its files are here: on a GPU that takes seconds, for which every session would wait that
        shares the replica with the first file.
        """
        self.live.probe(sessions)
        with suppress(WeightsFileError):  # a folder for live sessions alone; a file says what is missing
            self._mode(USUAL_MODE)

    def _clip(self, rows: FeatureRows, carry: DittoClipCarry) -> Result:
        return self._mode(carry.mode).steps([(rows, carry)])[0]

    def _mode(self, mode: ClipMode) -> DittoClipMotion:
        if mode not in self._clips:
            self._clips[mode] = self._make_clip(mode)
        return self._clips[mode]
