"""Scenes of moving textures with occlusion, made on the training device: what an interpolation network must know besides our faces.

Every frame of a scene is sampled from still textures at its own time, so the frame in between is exact, disocclusions
included. A scene has a background under a smooth flow, a shape that moves over it, and in half of the scenes a *mouth*: skin
that parts along a line and uncovers teeth, a tongue and darkness that do not move with it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

OCTAVES = (4, 12, 40, 128)


def textures(count: int, size: int, generator: torch.Generator, device: torch.device) -> Tensor:
    """Random pictures (count, 3, size, size) in 0..1: octaves of noise of random strength in random colours, some with stripes."""
    picture = torch.zeros(count, 3, size, size, device=device)
    for cells in OCTAVES:
        coarse = torch.randn(count, 3, cells, cells, device=device, generator=generator)
        strength = torch.rand(count, 1, 1, 1, device=device, generator=generator) * (4.0 / cells) ** 0.35
        picture += strength * F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False)
    line = torch.linspace(0, 1, size, device=device)
    angle, frequency, strength = torch.rand(3, count, 1, 1, device=device, generator=generator)
    angle, frequency = angle * torch.pi, 10.0 + 90.0 * frequency
    wave = torch.sin(frequency * (torch.cos(angle) * line[None, None, :] + torch.sin(angle) * line[None, :, None]))
    picture += ((strength - 0.6).clamp(min=0.0) * 3.0 * wave.sign())[:, None]
    base, gain = torch.rand(2, count, 3, 1, 1, device=device, generator=generator)
    made: Tensor = (0.15 + 0.7 * base + (0.05 + 0.3 * gain) * picture).clamp(0.0, 1.0)
    return made


def sample(texture: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Texture (n, c, S, S) at pixel positions (n, h, w), mirrored beyond its edge."""
    size = texture.shape[-1]
    grid = torch.stack([(2.0 * x + 1.0) / size - 1.0, (2.0 * y + 1.0) / size - 1.0], dim=-1)
    return F.grid_sample(texture, grid, mode="bilinear", padding_mode="reflection", align_corners=False)


class Scenes:
    """Draws random scenes.

    Args:
        device: Device that draws and holds the scenes.
        size: Side of the frames in pixels.
        seed: Seed of the generator.
    """

    def __init__(self, device: torch.device, size: int, seed: int) -> None:
        self._device = device
        self._size = size
        self._generator = torch.Generator(device).manual_seed(seed)

    def _uniform(self, *shape: int) -> Tensor:
        return torch.rand(*shape, device=self._device, generator=self._generator)

    def _normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, device=self._device, generator=self._generator)

    def draw(self, count: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Frames at times 0, 1 and t, float32 (count, 3, size, size) in 0..1, and t (count,)."""
        size = self._size
        pictures = textures(3 * count, size, self._generator, self._device).reshape(3, count, 3, size, size)
        line = torch.arange(size, device=self._device, dtype=torch.float32)
        x, y = line[None, None, :].expand(count, size, size), line[None, :, None].expand(count, size, size)
        speed = 10.0 ** (self._uniform(count, 1, 1, 1) * 1.6 - 0.6)  # 0.25 to 10 pixels
        flow = (
            F.interpolate(self._normal(count, 2, 4, 4), size=(size, size), mode="bicubic", align_corners=False) * speed
        )
        flow = flow + self._normal(count, 2, 1, 1) * speed
        shape = F.interpolate(self._normal(count, 1, 6, 6), size=(size, size), mode="bicubic", align_corners=False)
        shape = ((shape - 0.3 - 0.8 * self._uniform(count, 1, 1, 1)) * 12.0).clamp(0.0, 1.0)
        over = torch.cat([pictures[1], shape * (self._uniform(count, 1, 1, 1) < 0.7)], dim=1)
        velocity = self._normal(count, 2, 1, 1) * speed * 1.5
        mouth = self._mouth(count)
        t = torch.where(self._uniform(count) < 0.5, 0.5, self._uniform(count))
        frames = []
        for time in (torch.zeros_like(t), torch.ones_like(t), t):
            at = time[:, None, None]
            frame = sample(pictures[0], x + flow[:, 0] * at, y + flow[:, 1] * at)
            frame = self._with_mouth(frame, pictures[0], pictures[2], mouth, x, y, flow, at)
            layer = sample(over, x + velocity[:, 0] * at, y + velocity[:, 1] * at)
            frames.append(frame + layer[:, 3:] * (layer[:, :3] - frame))
        return frames[0], frames[1], frames[2], t

    def _mouth(self, count: int) -> Tensor:
        """Place, half width, half opening at both ends, share of motion of the inside, present: (7, count, 1, 1)."""
        size = float(self._size)
        place = size * (0.3 + 0.4 * self._uniform(2, count, 1, 1))
        width = size * (0.08 + 0.17 * self._uniform(1, count, 1, 1))
        opening = width * 0.6 * (self._uniform(2, count, 1, 1) - 0.3).clamp(min=0.0)
        change = (0.06 + 0.3 * self._uniform(1, count, 1, 1)) * width
        opening[1:] = torch.minimum(opening[1:], opening[:1] + change).maximum(opening[:1] - change).clamp(min=0.0)
        inside = self._uniform(1, count, 1, 1) * 0.5
        present = (self._uniform(1, count, 1, 1) < 0.5).float()
        return torch.cat([place, width, opening, inside, present])

    def _with_mouth(
        self, frame: Tensor, skin: Tensor, inner: Tensor, mouth: Tensor, x: Tensor, y: Tensor, flow: Tensor, at: Tensor
    ) -> Tensor:
        """Part the skin along a horizontal line: above it moves up, below down, and the inside shows between."""
        centre_x, centre_y, width, first, last, share, present = mouth
        opening = first + (last - first) * at
        across = (1.0 - ((x - centre_x) / width).square()).clamp(min=0.0).sqrt()
        height = opening * across
        off = y - centre_y
        fall = torch.exp(-((off.abs() - height).clamp(min=0.0) / (1.5 * width)))
        pulled = sample(skin, x + flow[:, 0] * at, y + flow[:, 1] * at - off.sign() * height * fall)
        teeth = ((off + height * 0.55) * -0.4).sigmoid()[:, None] * 0.75 * (width * 4.0).clamp(max=1.0)[:, None]
        dark = sample(inner, x, y + share * opening) * 0.35
        dark = dark * torch.tensor([1.0, 0.45, 0.45], device=self._device).reshape(1, 3, 1, 1)
        inside = dark + teeth * (0.9 - dark)
        shown = ((height - off.abs()) + 0.5).clamp(0.0, 1.0) * (across > 0)
        parted = pulled + shown[:, None] * (inside - pulled)
        made: Tensor = frame + present[:, None] * (parted - frame)
        return made
