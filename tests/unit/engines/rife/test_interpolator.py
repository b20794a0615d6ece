"""The interpolator of sessions on the CPU: batches, reuse of encodings, rounding, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.networks import build
from engines.networks.rife.ifnet import IFNet
from engines.rife import Interpolator, load_interpolator
from kernels.errors import InvalidInputError, ShapeError


def interpolator(name: str = "rife/mini") -> Interpolator:
    network = build(name).requires_grad_(False)
    assert isinstance(network, IFNet)
    return Interpolator(network, name)


def pictures(count: int, height: int = 40, width: int = 56, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("name", ["rife/mini", "rife/4.0", "rife/4.9"])
def test_pictures_are_those_of_the_network_rounded(name: str) -> None:
    frames = pictures(2)
    made = interpolator(name).interpolate(frames[:1], frames[1:], [0.25])
    network = build(name)
    images = torch.from_numpy(frames).permute(0, 3, 1, 2).float() / 255.0
    with torch.inference_mode():
        wanted = network(images[:1], images[1:], 0.25).clamp(0, 1) * 255.0
    assert made.shape == (1, 40, 56, 3) and made.dtype == torch.uint8
    assert (made.permute(0, 3, 1, 2).float() - wanted).abs().max() <= 0.5 + 1e-3


def test_encodings_are_reused_and_batches_do_not_couple() -> None:
    one, frames = interpolator(), pictures(3)
    encoded = one.encode(frames)
    both = one.between(encoded[:2], encoded[1:], [0.5, 0.75])
    for index, time in enumerate((0.5, 0.75)):
        alone = one.interpolate(frames[index : index + 1], frames[index + 1 : index + 2], [time])
        assert (both[index].int() - alone[0].int()).abs().max() <= 1


def test_several_times_of_one_pair() -> None:
    one, frames = interpolator(), pictures(2)
    first, second = one.encode(frames)
    made = one.between([first] * 3, [second] * 3, torch.tensor([0.2, 0.4, 0.8]))
    assert made.shape == (3, 40, 56, 3)
    assert not torch.equal(made[0], made[2])


def test_a_kept_frame_does_not_keep_its_batch() -> None:
    kept = interpolator().encode(pictures(4))[0].data
    assert kept.untyped_storage().nbytes() == kept.numel() * kept.element_size()


def test_nothing_in_nothing_out() -> None:
    one = interpolator()
    assert one.encode(pictures(0)) == []
    assert len(one.between([], [], [])) == 0
    assert one.interpolate(pictures(0), pictures(0), []).shape == (0, 40, 56, 3)


def test_what_does_not_fit_is_named() -> None:
    one, frames = interpolator(), pictures(2)
    encoded = one.encode(frames)
    with pytest.raises(ShapeError, match="frames0"):
        one.interpolate(frames.astype(np.float32), frames, [0.5, 0.5])  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="equal shapes"):
        one.interpolate(frames, frames[:1], [0.5])
    with pytest.raises(ShapeError, match="equally many"):
        one.between(encoded, encoded, [0.5])
    with pytest.raises(ShapeError, match="one size"):
        one.between(encoded[:1], one.encode(pictures(1, 48, 48)), [0.5])
    for wrong in (-0.1, 1.5, float("nan")):
        with pytest.raises(InvalidInputError, match="timesteps"):
            one.between(encoded[:1], encoded[1:], [wrong])
    with pytest.raises(InvalidInputError, match=r"rife/4\.9"):
        load_interpolator("rife/5")


def test_a_gpu_that_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InvalidInputError, match="torch finds no GPU"):
        load_interpolator("rife/mini", device="cuda")
