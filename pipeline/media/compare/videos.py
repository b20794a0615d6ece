"""Two videos side by side: what an operator runs after an upgrade to see what changed in the pictures.

All measures are taken on the decoded pictures as coded (8-bit 4:2:0, no colour conversion), frame k of one against frame k of
the other. Differences are in luma levels; PSNR is over all three planes with MAX = 255, pooled over frames. How spikes and the
mouth are found is said in `frame_spikes` and `mouth_box`.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from itertools import islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError
from pipeline.media.compare.mouth_box import MouthBox, box_pixels, dark_threshold, find_mouth_box
from pipeline.media.compare.report import VideoComparison, VideoFacts
from pipeline.media.compare.spikes import Spike, block_means, busiest_difference, find_new_spikes, find_spikes

if TYPE_CHECKING:
    from av.video.frame import VideoFrame

COLOUR_TAGS = {1: "bt709", 2: "untagged", 5: "bt601", 6: "bt601"}
SAME_RATE = 0.005
"""Average rates that differ by less of the larger are the same rate, read from files of different ends."""
FULL_RANGE = 2
"""FFmpeg's AVCOL_RANGE_JPEG."""
MOUTH_SEARCH_FRAMES = 250
"""The mouth is looked for in this many first frames."""


def compare_videos(
    first: Path | bytes,
    second: Path | bytes,
    *,
    mouth_box: MouthBox | None = None,
    dark_level: int | None = None,
    spike_z: float = 8.0,
) -> VideoComparison:
    """Compare two videos of the same size.

    Args:
        first: The video before, a path or the file's bytes.
        second: The video after.
        mouth_box: Where the mouth is, in pixels; found from where the first video's pictures change when None.
        dark_level: Luma below which a pixel counts as dark; 40 % of the mouth box's usual brightness when None.
        spike_z: How many robust standard deviations above its neighbourhood a frame-to-frame difference must lie.

    Returns:
        The report.

    Raises:
        InvalidInputError: A file is no video or has no pictures, the sizes differ, or the box lies outside the picture.
    """
    if mouth_box is None:
        mouth_box = find_mouth_box(_luma(frame) for frame in islice(_frames(first, "first"), MOUTH_SEARCH_FRAMES))
    series = _Series()
    level = dark_level
    for frame_a, frame_b in zip_longest(_frames(first, "first"), _frames(second, "second")):
        if frame_a is not None:
            series.first_facts(frame_a)
        if frame_b is not None:
            series.second_facts(frame_b)
        series.check_sizes()
        if frame_a is not None and level is None:
            level = dark_threshold(box_pixels(_luma(frame_a), mouth_box)) if mouth_box else 0
        series.add(frame_a, frame_b, mouth_box, level or 0)
    return series.report(mouth_box, level or 0, spike_z)


class _Series:
    """Collects the per-frame numbers while both videos are decoded once."""

    def __init__(self) -> None:
        self.counts = [0, 0]
        self.sizes: list[tuple[int, int]] = [(0, 0), (0, 0)]
        self.tags: list[tuple[str, bool]] = [("", False), ("", False)]
        self.rates = [0.0, 0.0]
        self.squared: list[float] = []
        self.samples = 1
        self.absolute: list[float] = []
        self.motion: list[list[float]] = [[], []]
        self.dark: list[list[int]] = [[], []]
        self.previous: list[F32 | None] = [None, None]

    def first_facts(self, frame: VideoFrame) -> None:
        """Take size and tags from a picture of the first video."""
        self._facts(0, frame)

    def second_facts(self, frame: VideoFrame) -> None:
        """Take size and tags from a picture of the second video."""
        self._facts(1, frame)

    def _facts(self, which: int, frame: VideoFrame) -> None:
        self.sizes[which] = (frame.width, frame.height)
        if self.counts[which] == 0:
            code = int(frame.colorspace)
            self.tags[which] = (COLOUR_TAGS.get(code, str(code)), int(frame.color_range) == FULL_RANGE)
        if frame.time:
            self.rates[which] = self.counts[which] / frame.time
        self.counts[which] += 1

    def check_sizes(self) -> None:
        """Refuse two videos of different sizes."""
        (wa, ha), (wb, hb) = self.sizes
        if min(wa, wb) > 0 and (wa, ha) != (wb, hb):
            raise InvalidInputError("second", f"{wb}x{hb} pixels", f"{wa}x{ha} pixels, like the first video")

    def add(self, a: VideoFrame | None, b: VideoFrame | None, box: MouthBox | None, level: int) -> None:
        """Measure one pair; either side may have ended."""
        import cv2

        planes: list[U8] = []
        for which, frame in enumerate((a, b)):
            if frame is None:
                continue
            picture = _planes(frame)
            blocks = block_means(picture[: frame.height])
            before = self.previous[which]
            self.motion[which].append(0.0 if before is None else busiest_difference(blocks, before))
            self.previous[which] = blocks
            planes.append(picture)
        if a is None or b is None:
            return
        first, second = planes
        luma_a, luma_b = first[: a.height], second[: b.height]
        self.squared.append(float(cv2.norm(first, second, cv2.NORM_L2SQR)))
        self.samples = first.size
        self.absolute.append(float(cv2.norm(luma_a, luma_b, cv2.NORM_L1)) / luma_a.size)
        for which, luma in enumerate((luma_a, luma_b)):
            dark = int((box_pixels(luma, box) < level).sum()) if box else 0
            self.dark[which].append(dark)

    def report(self, box: MouthBox | None, level: int, spike_z: float) -> VideoComparison:
        """Put the numbers together."""
        facts = [
            VideoFacts(
                *self.sizes[i],
                fps=self.rates[i],
                frames=self.counts[i],
                colour=self.tags[i][0],
                full_range=self.tags[i][1],
            )
            for i in range(2)
        ]
        spikes = [find_spikes(motion, spike_z) for motion in self.motion]
        worst = int(np.argmax(self.squared))
        loudest = int(np.argmax(self.absolute))
        dark_steps = np.abs(np.array(self.dark[0]) - np.array(self.dark[1]))
        darkest = int(np.argmax(dark_steps))
        identical = facts[0] == facts[1] and not any(self.squared)
        only = [find_new_spikes(self.motion[i], self.motion[1 - i], spike_z) for i in range(2)]
        psnr = _psnr_db(float(np.mean(self.squared)), self.samples)
        return VideoComparison(
            summary=_summary(facts, identical, psnr, only[1]),
            identical=identical,
            first=facts[0],
            second=facts[1],
            frames_compared=len(self.squared),
            mean_abs_diff=self.absolute,
            mean_abs_diff_mean=float(np.mean(self.absolute)),
            mean_abs_diff_max=self.absolute[loudest],
            mean_abs_diff_max_frame=loudest,
            psnr_db=psnr,
            psnr_worst_db=_psnr_db(self.squared[worst], self.samples),
            psnr_worst_frame=worst,
            motion_first=self.motion[0],
            motion_second=self.motion[1],
            spikes_first=spikes[0],
            spikes_second=spikes[1],
            spikes_only_first=only[0],
            spikes_only_second=only[1],
            mouth_box=box,
            dark_level=level,
            dark_pixels_first=self.dark[0],
            dark_pixels_second=self.dark[1],
            dark_pixels_mean_first=float(np.mean(self.dark[0])),
            dark_pixels_mean_second=float(np.mean(self.dark[1])),
            dark_pixels_max_diff=int(dark_steps[darkest]),
            dark_pixels_max_diff_frame=darkest,
        )


def _summary(facts: list[VideoFacts], identical: bool, psnr_db: float | None, new_spikes: list[Spike]) -> str:
    if identical:
        return f"identical: {facts[0].frames} frames"
    parts = []
    if facts[0].frames != facts[1].frames:
        parts.append(f"{facts[0].frames} frames against {facts[1].frames}")
    rates = facts[0].fps, facts[1].fps
    if min(rates) > 0 and abs(rates[0] - rates[1]) > SAME_RATE * max(rates):
        parts.append(f"{rates[0]:.4g} frames/s against {rates[1]:.4g}, so equal numbers are other moments")
    if facts[0].colour != facts[1].colour or facts[0].full_range != facts[1].full_range:
        parts.append(f"colour tags {facts[0].colour} against {facts[1].colour}")
    parts.append("common frames equal" if psnr_db is None else f"PSNR {psnr_db:.2f} dB")
    if new_spikes:
        parts.append(f"new spikes at frames {', '.join(str(spike.frame) for spike in new_spikes[:10])}")
    return "; ".join(parts)


def _frames(video: Path | bytes, field: str) -> Iterator[VideoFrame]:
    """Decode the pictures of a file that lies in memory or at a path."""
    import av

    allowed = "a video file with at least one picture"
    try:
        with (
            io.BytesIO(video) if isinstance(video, bytes) else video.open("rb") as file,
            av.open(file, "r", options={"protocol_whitelist": "none"}) as container,
        ):
            if not container.streams.video:
                raise InvalidInputError(field, "a file without pictures", allowed)
            count = 0
            for frame in container.decode(container.streams.video[0]):
                count += 1
                yield frame
    except (av.error.FFmpegError, OSError) as error:
        raise InvalidInputError(field, f"an unreadable file ({error.strerror})", allowed) from error
    if count == 0:
        raise InvalidInputError(field, "a file without pictures", allowed)


def _planes(frame: VideoFrame) -> U8:
    """Luma over chroma, uint8 (3/2 h, w), as coded."""
    return np.asarray(frame.to_ndarray(format="yuv420p"), np.uint8)


def _luma(frame: VideoFrame) -> U8:
    return _planes(frame)[: frame.height]


def _psnr_db(squared_error: float, samples: int) -> float | None:
    return 10.0 * math.log10(255.0**2 * samples / squared_error) if squared_error > 0 else None
