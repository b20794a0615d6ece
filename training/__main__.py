"""`python -m training`: make the embedded weights of the `mini` family, from text to files.

`all` synthesises a corpus, trains the encoder and then the motion model, writes the weights, evaluates them on held-out voices
and sentences, and writes the model card. Every part is resumable: run the same command again after `--max-seconds` ended it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from engines.mini.load import load_engines, load_networks, weights_folder
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from training import real_prompts, real_speech
from training.augment import Augmenter
from training.bank import build_bank, join_banks
from training.corpus import heldout_utterances, make_corpus
from training.dataset import SpeechBank
from training.evaluate import (
    LabelledClip,
    clip_measures,
    evaluate,
    row_measures,
)
from training.export import export_encoder, export_lmdm, write_json
from training.model_card import model_card
from training.source_commit import source_commit
from training.synthesisers import Tools, fetch, locate
from training.train_encoder import EncoderSettings, EncoderStart, RowHeads, train_encoder
from training.train_motion import MotionSettings, train_motion
from training.utterance import SynthesisError, Utterance

REPORT_FILE = "report.json"
CARD_FILE = "MODEL_CARD.md"
HEADS_FILE = "row_heads.safetensors"


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m training", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("all", "train", "evaluate", "card"))
    parser.add_argument("--work", type=Path, default=Path("build/training"), help="corpus and checkpoints")
    parser.add_argument("--out", type=Path, default=weights_folder(), help="where the weights and the card go")
    parser.add_argument("--hours", type=float, default=13.0, help="hours of speech to synthesise")
    parser.add_argument("--encoder-steps", type=int, default=EncoderSettings.steps)
    parser.add_argument("--motion-steps", type=int, default=MotionSettings.steps)
    parser.add_argument("--encoder-seconds", type=float, help="find the number of encoder steps that take this long")
    parser.add_argument("--motion-seconds", type=float, help="find the number of motion steps that take this long")
    parser.add_argument("--encoder-rate", type=float, default=EncoderSettings.rate, help="peak learning rate")
    parser.add_argument("--motion-rate", type=float, default=MotionSettings.rate, help="peak learning rate")
    parser.add_argument(
        "--from",
        type=Path,
        dest="start",
        help="folder of weights to go on from; row_heads.safetensors of their --work is used if it lies there too",
    )
    parser.add_argument("--neural-hours", type=float, default=0.0, help="hours that the neural voice speaks")
    parser.add_argument("--neural-share", type=float, default=0.4, help="its share of what is trained on")
    parser.add_argument("--as-it-is", action="store_true", help="train on the corpora in --work, make none")
    parser.add_argument("--max-seconds", type=float, default=1e9, help="stop, resumable, after this time")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="a minute on a CPU: proves the way, not the weights")
    return parser.parse_args(arguments)


def synthesisers(neural: bool = False) -> Tools:
    """The synthesisers, with the neural one where wanted, downloaded where they are not there."""
    try:
        tools = locate()
    except SynthesisError:
        tools = None
    if tools is None or (neural and tools.kokoro is None):
        fetch(neural=neural)
        return locate()
    return tools


def as_clips(utterances: Sequence[Utterance]) -> list[LabelledClip]:
    """Turn utterances into evaluation clips."""
    return [LabelledClip(u.voice, u.audio, u.phones) for u in utterances]


def heldout_clips(count: int) -> list[LabelledClip]:
    """The first `count` held-out sentences, spoken by the held-out voices in turn."""
    return as_clips(heldout_utterances(synthesisers())[:count])


def real_clips() -> dict[str, list[LabelledClip]]:
    """Recordings of people by evaluation part, where they and the aligner are installed."""
    found: dict[str, list[LabelledClip]] = {}
    for part, load in (("real", real_speech.load_all), ("prompts", real_prompts.load)):
        try:
            found[part] = as_clips(load())
        except (InvalidInputError, SynthesisError) as error:
            print(f"no real recordings: {error}", flush=True)
    return found


def noisy(seed: int) -> Callable[[F32], F32]:
    """An augmentation for evaluation, on the CPU, one clip at a time."""
    augmenter, generator = Augmenter(), torch.Generator().manual_seed(seed)

    def apply(pcm: F32) -> F32:
        return np.asarray(augmenter(torch.from_numpy(pcm)[None], generator)[0].numpy(), dtype=np.float32)

    return apply


def train(args: argparse.Namespace) -> bool:
    """Corpus, both networks, weights files.

    Returns:
        Whether all steps are done.
    """
    begun = time.monotonic()
    torch.set_float32_matmul_precision("high")
    if not args.as_it_is:
        make_corpora(args)
    bank, hours = load_bank(args)
    print(f"bank: {hours}, {time.monotonic() - begun:.0f} s", flush=True)
    encoder_settings = EncoderSettings(steps=args.encoder_steps, rate=args.encoder_rate)
    motion_settings = MotionSettings(steps=args.motion_steps, rate=args.motion_rate)
    if args.tiny:
        encoder_settings = replace(encoder_settings, steps=4, batch=4, frames=20)
        motion_settings = replace(motion_settings, steps=4, segments=3, frames=40, windows=2)

    def left() -> float:
        return float(args.max_seconds - (time.monotonic() - begun))

    settings = replace(encoder_settings, max_seconds=left(), fit_seconds=args.encoder_seconds)
    start = load_networks(args.start) if args.start else None
    first = EncoderStart(start.encoder, load_heads(args.start, start.encoder.row_dim)) if start else None
    encoder, heads, loop = train_encoder(bank, settings, args.work / "encoder", first)
    export_encoder(encoder, args.out)
    save_heads(args.work, heads)
    recipe = describe(args, hours, replace(encoder_settings, steps=loop.total_steps), motion_settings)
    if start:
        recipe = {"started from": start.version} | recipe
    write_json(args.work / REPORT_FILE, {"recipe": recipe, "evaluation": {}})
    if not loop.finished:
        return False
    timed = replace(motion_settings, max_seconds=left(), fit_seconds=args.motion_seconds)
    lmdm, space, motion_loop = train_motion(
        bank, encoder, timed, args.work / "motion", (start.lmdm, start.space) if start else None
    )
    export_lmdm(lmdm, space, args.out)
    recipe["motion steps"] = motion_loop.total_steps
    rows = row_measures(encoder, heads, heldout_clips(4 if args.tiny else 40))
    print(json.dumps(rows), flush=True)
    write_json(args.work / REPORT_FILE, {"recipe": recipe, "evaluation": {"rows": rows}})
    return motion_loop.finished


def make_corpora(args: argparse.Namespace) -> None:
    """Make what is missing of the corpora in `--work`."""
    workers, tools = 1 if args.tiny else 0, synthesisers(neural=args.neural_hours > 0)
    hours = (0.05, 0.01) if args.tiny else (args.hours, args.neural_hours)
    print(json.dumps(make_corpus(args.work / "corpus", hours[0], workers=workers, tools=tools)), flush=True)
    if args.neural_hours > 0:
        report = make_corpus(args.work / "neural", hours[1], workers=workers, tools=tools, neural=True)
        print(json.dumps(report), flush=True)


def load_bank(args: argparse.Namespace) -> tuple[SpeechBank, str]:
    """Load all corpora of `--work` onto the device that trains, and say in words how long they are."""
    workers = 1 if args.tiny else 0
    bank = build_bank(args.work / "corpus", workers=workers).to(args.device)
    hours = f"{bank.frames / 90_000:.1f} h"
    if args.neural_hours > 0 and any((args.work / "neural").glob("shard-*.json")):
        neural = build_bank(args.work / "neural", seed=1, workers=workers).to(args.device)
        bank = join_banks(bank, neural, args.neural_share)
        hours += f" and {neural.frames / 90_000:.2f} h of the neural voice, drawn {args.neural_share:.0%} of the time"
    return bank, hours


def load_heads(folder: Path, row_dim: int) -> RowHeads | None:
    """Load the read-outs that were kept with the weights of `folder`; None where they were not."""
    path = folder / HEADS_FILE
    if not path.exists():
        return None
    heads = RowHeads(row_dim)
    heads.load_state_dict(load_file(path))
    return heads


def save_heads(folder: Path, heads: RowHeads) -> None:
    """Keep the read-outs in `folder`."""
    save_file({key: value.cpu() for key, value in heads.state_dict().items()}, folder / HEADS_FILE)


def describe(args: argparse.Namespace, hours: str, encoder: EncoderSettings, motion: MotionSettings) -> dict[str, Any]:
    """What the card says about the run."""
    device = torch.cuda.get_device_name() if args.device.startswith("cuda") else "CPU"
    return {
        "commit": source_commit(),
        "speech": hours,
        "device": device,
        "torch": torch.__version__,
        **{f"encoder {key}": value for key, value in asdict(encoder).items() if not key.endswith("_seconds")},
        **{f"motion {key}": value for key, value in asdict(motion).items() if not key.endswith("_seconds")},
    }


def measure(args: argparse.Namespace) -> None:
    """Evaluate the files in `--out` and complete the report."""
    clips = heldout_clips(4 if args.tiny else 40)
    engines = load_engines("cpu" if args.tiny else args.device, folder=args.out)
    results = evaluate(engines, clips, noisy(7))
    for part, recordings in ({} if args.tiny else real_clips()).items():
        results[part] = clip_measures(engines, recordings)
    path = args.work / REPORT_FILE
    report = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"recipe": {}, "evaluation": {}}
    report["evaluation"] = {**{k: v for k, v in report["evaluation"].items() if k == "rows"}, **results}
    write_json(path, report)
    print(json.dumps(results, indent=1), flush=True)


def card(args: argparse.Namespace) -> None:
    """Write the model card from the report."""
    report = json.loads((args.work / REPORT_FILE).read_text(encoding="utf-8"))
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / CARD_FILE).write_text(model_card(report), encoding="utf-8")
    print(args.out / CARD_FILE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; 0 when done, 3 when time ran out and the same command will resume."""
    args = parse(arguments)
    if args.action in ("all", "train") and not train(args):
        print("stopped by --max-seconds; run the same command again to resume", flush=True)
        return 3
    if args.action in ("all", "evaluate"):
        measure(args)
    if args.action in ("all", "card"):
        card(args)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
