"""How well frames in between are guessed: every second frame of a talking video is dropped and made again.

    python -m benchmarks.rife.quality [--portrait PHOTO] [--out FILE] [--sheet PNG] [--quick]

The video is drawn by the mesh renderer from speech: the demo's, whose voice is part of the training corpus of the lips but not of
any interpolation network. Faces: the drawn presenter and, with --portrait, a photo. Two rates:

* `at50`: drawn at 50 frames/s (in motion space), 25 are kept: what sessions do. Dropped frames are midpoints of motion by
  construction, so this is kind to every method.
* `at25`: drawn at 25, 12.5 are kept. The motion in between is the model's own, twice as far away: hard.

Methods: `repeat` (the frame before), `blend` (the mean of both) and every network whose weights are here. Measures: PSNR and SSIM
on luma, over the whole crop and over the mouth's box, there only for the quarter of pairs with most mouth motion. `mini` is also
the renderer's own way of making these frames, in motion space; it would be exact here, and is no row.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks.core.frame_similarity import IDENTICAL_DB, luma_of, psnr_db, ssim
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.quality.local_face import LocalFace, portrait_face, presenter_face
from engines.face.topology import LOWER_LIP_OUTER, UPPER_LIP_OUTER
from engines.rife import Interpolator, load_interpolator
from engines.rife.sources import NAMES
from engines.weights.errors import WeightsError
from kernels.arrays import F32, U8
from kernels.errors import LiveAnchorError
from pipeline.media.audio_in import decode_audio
from pipeline.media.compare.mouth_box import MouthBox
from pipeline.session.cadence import double_rate
from pipeline.session.local_job import LocalPipeline
from pipeline.types import CROP_SIZE, Avatar

Method = Callable[[U8, U8], U8]
"""(earlier, later), uint8 (512, 512, 3) each -> the frame midway."""

SUITE: Final = "rife_quality"
DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / "rife_quality.json"
SPEECH: Final = Path("docs/demo/speech.wav")
TOP_SHARE: Final = 0.25
MOST_FRAMES: Final = 100
QUICK_FRAMES: Final = 24
"""Number of frames of motion, 25 per second."""
BASELINE: Final = "blend"
SHEET_ROWS: Final = 6


@dataclass(frozen=True)
class Scores:
    """Holds how well one method did on one video.

    Attributes:
        psnr: float (n,), dB, whole crop, every dropped frame.
        ssim: float (n,), SSIM of the same pictures.
        mouth_psnr: float (m,), dB, the mouth's box, the quarter of the frames with most mouth motion.
        mouth_ssim: float (m,), SSIM of the same boxes.
    """

    psnr: list[float]
    ssim: list[float]
    mouth_psnr: list[float]
    mouth_ssim: list[float]

    def by_measure(self) -> dict[str, tuple[str, list[float]]]:
        """Part of the case's name -> unit and samples."""
        return {
            "face_psnr": ("dB", self.psnr),
            "face_ssim": ("1", self.ssim),
            "mouth_psnr": ("dB", self.mouth_psnr),
            "mouth_ssim": ("1", self.mouth_ssim),
        }


def mouth_box_of(avatar: Avatar) -> MouthBox:
    """The outer lips at rest, half a width wider and taller, more below, where the jaw goes."""
    points = np.asarray(avatar.tensors["landmarks"], np.float32)[[*UPPER_LIP_OUTER, *LOWER_LIP_OUTER], :2]
    low, high = points.min(axis=0), points.max(axis=0)
    width = float(high[0] - low[0])
    left, top = max(0, int(low[0] - width / 4)), max(0, int(low[1] - width / 6))
    right, bottom = min(CROP_SIZE, int(high[0] + width / 4)), min(CROP_SIZE, int(high[1] + width / 2))
    return MouthBox(left, top, right - left, bottom - top)


def inside(picture: F32, box: MouthBox) -> F32:
    """The part of a picture in a box."""
    return picture[box.y : box.y + box.h, box.x : box.x + box.w]


def busiest(kept: Sequence[F32], box: MouthBox, share: float = TOP_SHARE) -> list[int]:
    """Indices of the pairs (i, i + 1) of kept luma pictures between which the mouth's box changes most."""
    steps = [float(np.abs(inside(b, box) - inside(a, box)).mean()) for a, b in zip(kept, kept[1:], strict=False)]
    count = max(1, round(len(steps) * share))
    return sorted(np.argsort(steps)[::-1][:count].tolist())


def measure(frames: U8, box: MouthBox, method: Method) -> tuple[Scores, list[U8]]:
    """Drop every odd frame, make it again, compare.

    Args:
        frames: uint8 (2 n + 1, 512, 512, 3), RGB.
        box: The mouth.
        method: Makes the frame midway.

    Returns:
        The scores, and the n frames that were made.
    """
    kept = [luma_of(frame) for frame in frames[0::2]]
    loud = set(busiest(kept, box))
    made = [method(frames[2 * i], frames[2 * i + 2]) for i in range(len(kept) - 1)]
    scores = Scores([], [], [], [])
    for index, picture in enumerate(made):
        truth, guess = luma_of(frames[2 * index + 1]), luma_of(picture)
        scores.psnr.append(psnr_db(truth, guess))
        scores.ssim.append(ssim(truth, guess))
        if index in loud:
            scores.mouth_psnr.append(psnr_db(inside(truth, box), inside(guess, box)))
            scores.mouth_ssim.append(ssim(inside(truth, box), inside(guess, box)))
    return scores, made


def repeat(before: U8, after: U8) -> U8:
    """The frame before."""
    return before


def blend(before: U8, after: U8) -> U8:
    """The mean, rounded half up."""
    mean: U8 = ((before.astype(np.uint16) + after + 1) // 2).astype(np.uint8)
    return mean


def by_network(interpolator: Interpolator) -> Method:
    """The frame of a network."""

    def method(before: U8, after: U8) -> U8:
        made: U8 = interpolator.interpolate(before[None], after[None], [0.5])[0].cpu().numpy()
        return made

    return method


def methods() -> dict[str, Method]:
    """Name -> method; networks whose weights are here."""
    found: dict[str, Method] = {"repeat": repeat, "blend": blend}
    for name in NAMES:
        try:
            found[name.replace("/", "").replace(".", "")] = by_network(load_interpolator(name))
        except WeightsError as error:
            print(f"# left out: {name} {error}", file=sys.stderr)
    return found


def videos(face: LocalFace, pcm: F32, most: int) -> dict[str, U8]:
    """Rate -> crops of an odd number of frames."""
    motion = face.motion(pcm)[:most]
    fast = double_rate(motion, None)[:-1]
    return {"at50": face.crops(fast), "at25": face.crops(motion[: len(motion) - 1 + len(motion) % 2])}


def records_of(run: RunInfo, name: str, rate: str, scored: dict[str, Scores]) -> list[BenchmarkRecord]:
    """Rows of all methods on one video; the baseline is blending."""
    rows = []
    for method, scores in scored.items():
        for measure_name, (unit, samples) in scores.by_measure().items():
            compared = None if method == BASELINE else float(np.median(scored[BASELINE].by_measure()[measure_name][1]))
            rows.append(
                make_record(
                    run,
                    suite=SUITE,
                    case=f"{name}_{rate}_{method}_{measure_name}",
                    unit=unit,
                    samples=samples,
                    higher_is_better=True,
                    baseline=None if compared is None else BASELINE,
                    baseline_value=compared,
                    floor_value=IDENTICAL_DB if unit == "dB" else 1.0,
                )
            )
    return rows


def sheet(frames: U8, box: MouthBox, made: dict[str, list[U8]]) -> U8:
    """Mouths of the pairs that move most: before, truth, after, then every method; one row per pair, uint8 RGB."""
    import cv2

    kept = [luma_of(frame) for frame in frames[0::2]]
    steps = [float(np.abs(inside(b, box) - inside(a, box)).mean()) for a, b in zip(kept, kept[1:], strict=False)]
    rows = []
    for index in np.argsort(steps)[::-1][:SHEET_ROWS]:
        columns = {"before": frames[2 * index], "truth": frames[2 * index + 1], "after": frames[2 * index + 2]}
        columns |= {name: pictures[index] for name, pictures in made.items()}
        tiles = []
        for name, picture in columns.items():
            tile = cv2.resize(
                np.ascontiguousarray(picture[box.y : box.y + box.h, box.x : box.x + box.w]),
                (240, 220),
                interpolation=cv2.INTER_CUBIC,
            )
            cv2.putText(tile, f"{name} {index}", (5, 14), cv2.FONT_HERSHEY_SIMPLEX, 0.45, (255, 255, 0), 1, cv2.LINE_AA)
            tiles.append(tile)
        rows.append(np.hstack(tiles))
    return np.vstack(rows)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 done, 1 failure."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rife.quality", description=__doc__)
    parser.add_argument("--portrait", type=Path, help="a photo, beside the drawn presenter")
    parser.add_argument("--speech", type=Path, default=SPEECH, help="any audio file")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument(
        "--sheet", type=Path, help="write pictures of the busiest mouths here: PNG, one per face and rate"
    )
    parser.add_argument("--quick", action="store_true", help="a second of speech, for a look; not for publishing")
    args = parser.parse_args(arguments)
    if args.quick and RESULTS_DIR in args.out.resolve().parents:
        parser.error("--quick is not for publishing: name another --out")
    try:
        pipeline = LocalPipeline()
        faces = {"presenter": presenter_face(pipeline)}
        if args.portrait is not None:
            faces["portrait"] = portrait_face(pipeline, args.portrait)
        photo = "" if args.portrait is None else f" --portrait {args.portrait.name}"
        run = describe_run(f"python -m benchmarks.rife.quality{photo}")
        ways, pcm = methods(), decode_audio(args.speech).pcm
        for name, face in faces.items():
            box = mouth_box_of(face.avatar)
            for rate, frames in videos(face, pcm, QUICK_FRAMES if args.quick else MOST_FRAMES).items():
                results = {way: measure(frames, box, method) for way, method in ways.items()}
                rows = records_of(run, name, rate, {way: scores for way, (scores, _) in results.items()})
                print(format_table(rows), flush=True)
                write_records(args.out, rows)
                if args.sheet is not None:
                    save_sheet(
                        args.sheet, f"{name}-{rate}", sheet(frames, box, {w: made for w, (_, made) in results.items()})
                    )
    except LiveAnchorError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def save_sheet(path: Path, name: str, rgb: U8) -> None:
    """Write a picture next to `path`, its name extended."""
    import cv2

    cv2.imwrite(str(path.with_name(f"{path.stem}-{name}.png")), rgb[..., ::-1])


if __name__ == "__main__":
    sys.exit(main())
