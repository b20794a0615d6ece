"""`python -m training.train_rife`: make the embedded interpolation network `rife/mini`, from our own drawing to the weights file.

`faces` prepares the faces (a CPU with OpenCV 4), `train` renders the clips, trains, evaluates and writes weights and model
card (a GPU). Resumable: the same command continues after `--max-seconds`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
import torch.nn.functional as F
from torch import Tensor

from engines.networks import build
from engines.networks.rife.ifnet import IFNet, merge
from engines.rife.flownet import FAMILY
from engines.rife.sources import EMBEDDED, EMBEDDED_FILE, embedded_folder
from engines.weights.file import tensors_sha256, write_weights
from training.export import write_json
from training.loop import Loop, LoopSettings
from training.rife_card import CARD_FILE, rife_card
from training.rife_clips import TIMES, random_motion, render_clips
from training.rife_faces import HELD_OUT, load_face, make_faces
from training.rife_scenes import Scenes

REPORT_FILE: Final = "rife_report.json"
CROP: Final = 256
MOUTH: Final = (160, 288, 192, 160)
"""Left, top, width, height of the mouth box in the drawing's crop."""


@dataclass(frozen=True)
class Bank:
    """Rendered clips, uint8 (clips, 5, 512, 512, 3), on the training device."""

    clips: Tensor

    def draw(self, count: int, crop: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Crops, most of them around the mouth, flipped and recoloured by chance: frames at 0, 1 and t in 0..1, and t."""
        device, room = self.clips.device, self.clips.shape[2] - crop
        which = torch.randint(len(self.clips), (count,), generator=generator)
        middles = torch.randint(1, len(TIMES) - 1, (count,), generator=generator)
        middles = torch.where(torch.rand(count, generator=generator) < 0.6, len(TIMES) // 2, middles)
        centres = torch.randn(2, count, generator=generator) * 40.0 + torch.tensor([[256.0], [340.0]])
        anywhere = torch.rand(2, count, generator=generator) * room
        near_mouth = torch.rand(count, generator=generator) < 0.7
        corners = torch.where(near_mouth, (centres - crop / 2).clamp(0, room), anywhere).long()
        times = torch.stack([torch.zeros_like(middles), torch.full_like(middles, len(TIMES) - 1), middles])
        line = torch.arange(crop)
        rows, columns = corners[1][:, None] + line, corners[0][:, None] + line
        index = (which[None, :, None, None], times[:, :, None, None], rows[None, :, :, None], columns[None, :, None, :])
        picked = self.clips[tuple(part.to(device, non_blocking=True) for part in index)]  # (3, count, crop, crop, 3)
        frames = picked.permute(0, 1, 4, 2, 3).float() / 255.0
        mix = torch.eye(3) + 0.12 * torch.randn(count, 3, 3, generator=generator)
        curve = torch.exp(0.35 * torch.randn(count, 1, 1, 1, generator=generator))
        frames = torch.einsum("kncyx,ndc->kndyx", frames, mix.to(device)).clamp(0.0, 1.0) ** curve.to(device)
        flip = (torch.rand(count, generator=generator) < 0.5).to(device)[None, :, None, None, None]
        frames = torch.where(flip, frames.flip(-1), frames)
        return frames[0], frames[1], frames[2], torch.tensor(TIMES)[middles].to(device)


def pyramid_loss(made: Tensor, wanted: Tensor, levels: int = 5) -> Tensor:
    """Mean absolute difference of Laplacian pyramids, coarse levels weighing more, plus that of the pictures."""
    total = (made - wanted).abs().mean()
    for level in range(levels):
        small_made, small_wanted = F.avg_pool2d(made, 2), F.avg_pool2d(wanted, 2)
        detail = (made - F.interpolate(small_made, scale_factor=2.0, mode="bilinear", align_corners=False)) - (
            wanted - F.interpolate(small_wanted, scale_factor=2.0, mode="bilinear", align_corners=False)
        )
        total = total + detail.abs().mean() * 2.0**level * 0.25
        made, wanted = small_made, small_wanted
    return total


def losses_of(network: IFNet, before: Tensor, after: Tensor, wanted: Tensor, t: Tensor) -> dict[str, Tensor]:
    """Losses of the last block's frame and, less, of the earlier ones'; convolutions in bfloat16 on a GPU."""
    plane = t[:, None, None, None].expand(-1, 1, *before.shape[-2:])
    before, after = (picture.contiguous(memory_format=torch.channels_last) for picture in (before, after))
    with torch.autocast(before.device.type, torch.bfloat16, enabled=before.is_cuda):
        encoded = network.encoded(torch.cat([before, after]))
        enc0, enc1 = encoded.float().chunk(2) if encoded is not None else (None, None)
        steps = list(network.refinements(before, after, enc0, enc1, plane))
    frames = [merge(first.float(), second.float(), mask.float()) for first, second, _, mask in steps]
    early = torch.stack([(frame - wanted).abs().mean() for frame in frames[:-1]]).mean()
    return {"last": pyramid_loss(frames[-1], wanted), "early": 0.3 * early}


def new_network(seed: int) -> IFNet:
    """Fresh weights; heads start small, so that the first flows are."""
    network = build(EMBEDDED, seed=seed)
    if not isinstance(network, IFNet):
        raise TypeError(EMBEDDED)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if ".lastconv." in name:
                value.mul_(0.1)
    return network


def train(args: argparse.Namespace) -> bool:
    """Render, train, evaluate, write.

    Returns:
        Whether all steps are done.
    """
    device = torch.device(args.device)
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    chance = torch.Generator().manual_seed(args.seed)
    paths = sorted(args.faces.glob("face*.safetensors"))
    clips = [
        render_clips(load_face(path, device), random_motion(args.clips // len(paths), chance), device) for path in paths
    ]
    bank, crop = Bank(torch.cat(clips)), 64 if args.tiny else CROP
    print(f"{len(bank.clips)} clips of {len(paths)} faces", flush=True)
    network = new_network(args.seed).to(device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    for index in range(len(network.scales)):  # flows and logits stay float32 whatever the convolutions are
        getattr(network, f"block{index}").lastconv.register_forward_hook(lambda _module, _inputs, out: out.float())
    scenes = Scenes(device, crop, args.seed)
    settings = LoopSettings(
        args.steps, learning_rate=8e-4, weight_decay=1e-3, max_seconds=args.max_seconds, fit_seconds=args.fit_seconds
    )
    loop = Loop({"ifnet": network}, settings, args.work)
    half = args.batch // 2

    def step(_: int) -> Mapping[str, Tensor]:
        first, second = bank.draw(args.batch - half, crop, chance), scenes.draw(half)
        return losses_of(network, *(torch.cat(pair) for pair in zip(first, second, strict=True)))

    loop.run(step)
    loop.use_averaged()
    network.eval().float()
    write_network(network, args.out)
    report: dict[str, Any] = {
        "recipe": {
            "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
            "torch": torch.__version__,
            "faces": len(paths),
            "clips": len(bank.clips),
            "steps": loop.step,
            "batch": args.batch,
            "crop": crop,
            "seed": args.seed,
        },
        "evaluation": evaluate(network, args, device),
    }
    write_json(args.work / REPORT_FILE, report)
    (args.out / CARD_FILE).write_text(rife_card(report), encoding="utf-8")
    print(json.dumps(report["evaluation"], indent=1), flush=True)
    return loop.finished


def write_network(network: IFNet, folder: Path) -> None:
    """Write the weights file; its version is the layout and the head of the tensors' digest."""
    tensors = network.state_dict()
    version = f"1.{tensors_sha256(tensors)[:8]}"
    write_weights(folder / EMBEDDED_FILE, tensors, family=FAMILY, network=EMBEDDED, config={}, version=version)


@torch.inference_mode()
def evaluate(network: IFNet, args: argparse.Namespace, device: torch.device) -> dict[str, dict[str, float]]:
    """PSNR (dB) on the held-out face, whole and mouth box, against blending and repeating; and the same on fresh scenes."""
    face = load_face(args.faces / f"{HELD_OUT}.safetensors", device)
    chance = torch.Generator().manual_seed(args.seed + 1)
    clips = render_clips(face, random_motion(8 if args.tiny else 200, chance), device).permute(0, 1, 4, 2, 3)
    left, top, width, height = MOUTH
    rows: dict[str, list[Tensor]] = {}
    for clip in clips:
        before, middle, after = (clip[k : k + 1].float() / 255.0 for k in (0, 2, 4))
        for name, made in (
            ("network", network(before, after, 0.5)),
            ("blend", (before + after) / 2),
            ("repeat", before),
        ):
            error = (made.clamp(0, 1) - middle).square()
            box = error[..., top : top + height, left : left + width]
            rows.setdefault(name, []).append(torch.stack([error.mean(), box.mean()]))
        change = (after - before)[..., top : top + height, left : left + width].abs().mean()
        rows.setdefault("change", []).append(change[None])
    change = torch.cat(rows.pop("change"))
    most = change >= change.quantile(0.75)
    report: dict[str, dict[str, float]] = {}
    for name, values in rows.items():
        errors = torch.stack(values)
        report[f"held-out face, {name}"] = {
            "whole face": decibel(errors[:, 0]),
            "mouth box": decibel(errors[:, 1]),
            "mouth box, quarter with most motion": decibel(errors[most, 1]),
        }
    first, second, wanted, t = Scenes(device, 64 if args.tiny else CROP, args.seed + 1).draw(4 if args.tiny else 64)
    share = t[:, None, None, None]
    report["fresh scenes"] = {
        "network": decibel((network(first, second, t).clamp(0, 1) - wanted).square().mean((1, 2, 3))),
        "blend": decibel((first * (1 - share) + second * share - wanted).square().mean((1, 2, 3))),
    }
    return report


def decibel(errors: Tensor) -> float:
    """Mean PSNR of mean square errors of pictures in 0..1."""
    return float((-10.0 * torch.log10(errors.clamp(min=1e-8))).mean())


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("faces", "train"))
    parser.add_argument("--faces", type=Path, default=Path("build/training/rife_faces"), help="prepared faces")
    parser.add_argument("--count", type=int, default=6, help="how many faces to prepare")
    parser.add_argument("--work", type=Path, default=Path("build/training/rife"), help="checkpoints and report")
    parser.add_argument("--out", type=Path, default=embedded_folder(), help="where weights and card go")
    parser.add_argument("--clips", type=int, default=900)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--fit-seconds", type=float, help="find the number of steps that take this long")
    parser.add_argument("--max-seconds", type=float, default=1e9, help="stop, resumable, after this time")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="a minute on a CPU: proves the way, not the weights")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; 0 when done, 3 when time ran out and the same command will resume."""
    args = parse(arguments)
    if args.action == "faces":
        make_faces(args.faces, args.count)
        return 0
    args.out.mkdir(parents=True, exist_ok=True)
    return 0 if train(args) else 3


if __name__ == "__main__":
    raise SystemExit(main())
