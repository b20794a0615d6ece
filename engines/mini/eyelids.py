"""Eyes: lids that close over the eyeball and an iris that turns, edited in the source picture before the face is warped.

Per eye and texel column the source has an upper and a lower lid margin. Closing moves the upper margin down together
with its own strip of lashes; the skin that unrolls behind it is a sheet between the clean skin below the brow and the
skin under the eye, with the grain of one of them (`engines.mini.lid_skin`), so that no lash, crease or make-up colour
is stretched over the lid. Glasses and what they reflect stay in front. At rest the result is the source itself, texel
for texel.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np
import torch

from engines.mini.easing import ease
from engines.mini.eye_patch import EyePatch
from engines.mini.pixel_planes import to_pixels, to_planes
from kernels.sampling.mesh_warp import mesh_warp

LASH_THINNING: Final = 0.8
"""How much thinner the lash line looks from the front when the lid is shut."""
FAR: Final = 80.0
"""exp(-FAR) counts for nothing next to 1; numbers below about exp(-87) are denormal, and five times slower to work with."""
LIDS_AT_REST: Final = 0.004
"""Motion of a lid, in eye openings, that is not drawn: a tenth of a pixel of a large eye."""
COVERED: Final = 0.2
"""Share of the greatest opening from which on the lid hides all of what was between the margins."""
SNAP, SNAP_FROM, SNAP_OVER = 0.2, 0.45, 0.35
"""Lids that are four fifths shut meet: a slit of iris in one frame of a blink looks like a mistake."""
SOON_TURNED: Final = 50.0
"""The painted eyeball takes the source's place over the first 1 / 50 of an eye width of gaze."""


def render_eye(eye: EyePatch, lids: torch.Tensor, gaze: torch.Tensor) -> torch.Tensor:
    """Draw the patch for a batch.

    Args:
        eye: The eye.
        lids: float32 (n, 2), downward motion of the upper and the lower lid in eye openings; 0 is the source, (0.9, -0.1) is shut.
        gaze: float32 (n, 2), x and y in eye widths.

    Returns:
        uint8 (n, h, w, 3).
    """
    if lids.device.type == "cpu" and len(lids) == 1 and float(lids.abs().amax()) < LIDS_AT_REST:
        return _open_eye(eye, gaze)
    height = eye.sheet_ramp.shape[0]
    rows = torch.arange(height, device=lids.device, dtype=torch.float32)[:, None]
    shut = lids[:, 0] - lids[:, 1]
    sooner = shut + SNAP * ease((shut - SNAP_FROM) * (1.0 / SNAP_OVER))
    share = torch.where(shut > SNAP_FROM, sooner / shut, 1.0) / sooner.clamp(min=1.0)
    up, low = (lids[:, 0] * share)[:, None, None], (lids[:, 1] * share)[:, None, None]
    closing = ease(up * (1.0 / 0.35))
    tall = eye.strip[2]
    margin = eye.upper + up * eye.opening
    bottom = eye.upper + (1.0 + low) * eye.opening
    above = margin - rows

    turn = -gaze[:, None, None] * eye.units * eye.iris[..., None]
    ball = to_planes(mesh_warp(eye.eyeball, turn, 1))
    turned = (gaze.abs().amax(-1) * SOON_TURNED + up[:, 0, 0].abs() * 8.0).clamp(max=1.0)  # at rest the source itself
    ball = torch.lerp(eye.source_planar, ball, turned[:, None, None, None])
    ball = ball * (1.0 - 0.30 * closing * torch.exp((above / (0.22 * tall)).clamp(max=0.0)))[:, None]

    thick = eye.strip[0] / (1.0 + LASH_THINNING * closing)
    strip_weight = (1.0 - ease((above / thick - 0.45) * (1.0 / 0.55))) * ease(1.0 + above / eye.strip[1])
    strip_weight = strip_weight * torch.maximum(eye.taper, 1.0 - closing)
    fall = 1.0 - ease((rows - bottom) / (0.95 * tall))
    below = _shifted(eye, -low * eye.opening * fall)
    lashes = _shifted(eye, -up * eye.opening - (LASH_THINNING * closing) * above.clamp(min=0.0))

    sheet_weight = torch.where(rows < eye.upper, eye.sheet_ramp * closing, ease(eye.opening / (COVERED * tall)))
    depth = (above / (margin - eye.upper + 1.0)).clamp(0.0, 1.0)
    shading = 1.0 + closing * eye.taper * (0.02 - 0.26 * (depth - 0.45) ** 2)
    lid = torch.lerp(eye.source_planar, eye.sheet * shading[:, None], sheet_weight[:, None])

    slit = ease(eye.opening * 0.25)
    open_top = (0.5 - above * (1.0 / 1.6)).clamp(0.0, 1.0)
    open_bottom = ((bottom - rows) * (1.0 / 1.6) + 0.5).clamp(0.0, 1.0) * slit
    picture = torch.lerp(below, ball, open_bottom[:, None])
    picture = torch.lerp(lid, picture, open_top[:, None])
    picture = torch.lerp(picture, lashes, strip_weight[:, None])
    distance = (((above + 0.3) * (1.0 / 1.7)) ** 2).clamp(max=FAR)
    line = torch.exp(-distance) * (0.22 * closing * eye.taper)
    picture = picture * (1.0 - line)[:, None]
    if eye.front.numel():
        picture = torch.lerp(picture, eye.source_planar, eye.front)
    return to_pixels(picture)


def _open_eye(eye: EyePatch, gaze: torch.Tensor) -> torch.Tensor:
    """One frame of an eye whose lids are at rest: nothing but the eyeball between them changes."""
    picture = eye.source.clone()
    turned = min(float(gaze.abs().amax()) * SOON_TURNED, 1.0)
    rows = slice(*eye.sight_rows.tolist())
    if turned == 0.0 or rows.start == rows.stop:
        return picture
    turn = -gaze[:, None, None] * eye.units * eye.iris[rows, :, None]
    ball = mesh_warp(eye.eyeball, turn, 1, region_origin=(0.0, float(rows.start)))
    share = eye.sight[rows].numpy() * np.float32(turned)
    part = picture[0, rows].numpy()
    part[...] = cv2.blendLinear(ball[0].numpy(), part, share, np.float32(1.0) - share)
    return picture


def _shifted(eye: EyePatch, down: torch.Tensor) -> torch.Tensor:
    """The source sampled `down` (n, h, w) texels further down in the same column."""
    return to_planes(mesh_warp(eye.source, torch.stack([torch.zeros_like(down), down], dim=-1), 1))
