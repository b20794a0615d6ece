"""Pictures as planes of floats, in which layers are mixed, and back."""

from __future__ import annotations

import cv2
import numpy as np
import torch


def to_planes(picture: torch.Tensor) -> torch.Tensor:
    """uint8 (n, h, w, c) -> contiguous float32 (n, c, h, w), the same values."""
    return picture.permute(0, 3, 1, 2).contiguous().float()


def to_pixels(planes: torch.Tensor) -> torch.Tensor:
    """float32 (n, c, h, w), n >= 1, c 2 to 4 -> uint8 (n, h, w, c), rounded half up and held in 0..255."""
    whole = (planes + 0.5).clamp_(0, 255).to(torch.uint8)
    if whole.device.type != "cpu":
        return whole.permute(0, 2, 3, 1)
    merged = [cv2.merge(list(one)) for one in whole.numpy()]  # half the time of a permuted copy
    return torch.from_numpy(np.stack(merged))
