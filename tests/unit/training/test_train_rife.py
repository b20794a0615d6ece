"""Training of the embedded interpolation network, as far as seconds on a CPU go: exact data, a loss that falls, files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engines.mini.mesh_renderer import MeshRenderer
from engines.rife.sources import load_embedded
from training import train_rife
from training.rife_card import rife_card
from training.rife_clips import TIMES, random_motion, render_clips
from training.rife_faces import load_face, save_face
from training.rife_scenes import Scenes
from training.train_rife import Bank, losses_of, new_network, pyramid_loss, write_network


def test_clips_move_evenly_and_a_third_of_the_mouths_close() -> None:
    motion = random_motion(64, torch.Generator().manual_seed(0))
    assert motion.shape == (64, len(TIMES), 265) and bool(torch.isfinite(motion).all())
    assert torch.equal(motion, random_motion(64, torch.Generator().manual_seed(0)))
    assert (motion[:, 0] - motion[:, -1]).abs().amax(1).gt(1e-4).float().mean() > 0.9


def test_scenes_are_still_where_nothing_moves_and_between_their_ends_else() -> None:
    first, last, between, t = Scenes(torch.device("cpu"), 48, 3).draw(6)
    assert first.shape == (6, 3, 48, 48) and bool(((t >= 0) & (t <= 1)).all())
    for frames in (first, last, between):
        assert frames.min() >= -1e-4 and frames.max() <= 1.0 + 1e-4
    assert (first - last).abs().mean() > 1e-3
    near = torch.minimum((between - first).abs().mean(), (between - last).abs().mean())
    assert near < (first - last).abs().mean()


def test_a_prepared_face_survives_the_file(tmp_path: Path) -> None:
    from pipeline.mini.presenter import default_avatar

    tensors = default_avatar().tensors
    face = MeshRenderer().prepare(tensors["crop_rgb"].copy(), tensors["landmarks"].copy())  # type: ignore[arg-type]
    save_face(tmp_path / "f.safetensors", face)
    motion = random_motion(1, torch.Generator().manual_seed(1))
    frames = [
        render_clips(f, motion, torch.device("cpu")) for f in (face, load_face(tmp_path / "f.safetensors", "cpu"))
    ]
    assert torch.equal(*frames) and frames[0].shape == (1, 5, 512, 512, 3)


def test_crops_of_the_bank_belong_together() -> None:
    still = torch.arange(5, dtype=torch.uint8).reshape(1, 5, 1, 1, 1).expand(3, 5, 512, 512, 3).contiguous() * 50
    first, last, middle, t = Bank(still).draw(8, 64, torch.Generator().manual_seed(0))
    assert first.shape == (8, 3, 64, 64)
    assert float(first.max()) == 0.0
    assert bool((middle.std((2, 3)) < 1e-5).all())
    assert bool((last.mean((1, 2, 3)) >= middle.mean((1, 2, 3))).all()) and set(t.tolist()) <= {0.25, 0.5, 0.75}


def test_the_loss_falls(one_thread: None) -> None:
    network = new_network(0).train()
    batch = Scenes(torch.device("cpu"), 64, 0).draw(2)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-3)
    values = []
    for _ in range(6):
        losses = losses_of(network, *batch)
        total = torch.stack(list(losses.values())).sum()
        optimizer.zero_grad()
        torch.autograd.backward(total)
        optimizer.step()
        values.append(float(total.detach()))
    assert values[-1] < values[0]
    assert float(pyramid_loss(batch[2], batch[2])) == 0.0


def test_weights_written_are_weights_read(tmp_path: Path) -> None:
    network = new_network(4)
    write_network(network, tmp_path)
    read = load_embedded(tmp_path / "mini.safetensors")
    assert read.name == "rife/mini"
    for key, value in read.network.state_dict().items():
        torch.testing.assert_close(value, network.state_dict()[key], atol=2e-3, rtol=2e-3)


def test_the_card_and_the_command_line() -> None:
    card = rife_card({"recipe": {"steps": 3}, "evaluation": {"held-out face, blend": {"mouth box": 31.234}}})
    assert "| steps | 3 |" in card and "| mouth box | 31.23 |" in card
    with pytest.raises(SystemExit):
        train_rife.parse(["nothing"])
