"""What is drawn into an open mouth lies in the light of the portrait; ordinary light leaves it as it always was."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from engines.mini.face_frame import build_frame, build_lip_lines
from engines.mini.mesh_lattice import Lattice
from engines.mini.mesh_renderer import MeshRenderer
from engines.mini.mouth_interior import InteriorTextures, draw_interior
from engines.mini.mouth_layers import TEXTURE_SCALE, finer_texture, mouth_region, texture_grid
from engines.mini.portrait_light import LUMA, PortraitLight, measure_light
from kernels.arrays import F32, F64, U8
from pipeline.avatars.face_crop import crop_square, cut_crop
from tests.support.faces import presenter
from tests.support.mesh import motion, source

Change = Callable[[F64], F64]


@functools.cache
def portrait() -> tuple[U8, F32]:
    """Crop and landmarks of the drawn presenter, in ordinary light."""
    drawing = presenter()
    square = crop_square(drawing.landmarks)
    return cut_crop(drawing.rgb, square), square.to_crop(drawing.landmarks)


def grey(rgb: F64) -> F64:
    return np.repeat((rgb @ LUMA)[..., None], 3, axis=-1)


def lit(change: Change) -> U8:
    return np.clip(np.rint(change(portrait()[0].astype(np.float64))), 0, 255).astype(np.uint8)


def light_of(crop: U8) -> PortraitLight:
    return measure_light(build_frame(portrait()[1]), crop)


def interior(crop: U8, points: F32) -> InteriorTextures:
    frame = build_frame(points)
    region: Lattice = mouth_region(frame).padded
    grid = texture_grid(frame, region)
    x, y = region.x * TEXTURE_SCALE, region.y * TEXTURE_SCALE
    fine = finer_texture(crop)[y : y + grid.u.shape[0], x : x + grid.u.shape[1]]
    return draw_interior(frame, build_lip_lines(frame, crop), crop, fine, grid)


def drawn(crop: U8) -> F64:
    """All colours that the inside of the mouth can show, haze included, (n, 3); teeth first."""
    inside = interior(crop, portrait()[1])
    layers = [layer[layer[..., 3] > 240][:, :3].astype(np.float64) for layer in (inside.upper_teeth, inside.jaw_parts)]
    return np.concatenate([*layers, inside.cavity[None]]) + inside.haze


@functools.cache
def ordinary() -> F64:
    return drawn(portrait()[0])


def opened(crop: U8) -> F64:
    """The portrait with its mouth wide open: the region around the mouth, (n, 3)."""
    renderer = MeshRenderer()
    points = portrait()[1]
    face = renderer.prepare(crop, points)
    picture = renderer.render(face, motion(jaw_open=1.0, lips_part=0.6))[0].numpy().astype(np.float64)
    x, y = (int(v) for v in face.mouth.centre)
    return picture[y - 30 : y + 50, x - 40 : x + 40].reshape(-1, 3)


def face_luma(crop: U8, share: float) -> float:
    points = portrait()[1]
    low, high = points[:, :2].min(axis=0).astype(int), points[:, :2].max(axis=0).astype(int)
    return float(np.percentile(crop[low[1] : high[1], low[0] : high[0]] @ LUMA, share))


def test_ordinary_light_changes_no_drawn_colour() -> None:
    light = light_of(portrait()[0])
    colours = np.random.default_rng(0).uniform(0, 255, (40, 3))
    assert (light.lift, light.gain, light.one_hue) == (0.0, 1.0, 0.0)
    assert np.array_equal(light.on(colours), colours) and np.array_equal(light.off(colours), colours)


@pytest.mark.parametrize("skin", [(0.8, 0.72, 0.66), (0.55, 0.45, 0.38), (0.35, 0.27, 0.22)])
def test_dark_skin_is_no_dark_light(skin: tuple[float, float, float]) -> None:
    """The whites of the eyes and the shine of the skin tell them apart: teeth stay white."""
    crop, points = portrait()
    white = (crop @ LUMA)[..., None] > 195
    light = measure_light(build_frame(points), np.where(white, crop, crop * np.array(skin)).astype(np.uint8))
    assert light.gain == 1.0 and light.lift == 0.0
    assert light.tone.min() > 0.5


@pytest.mark.parametrize("exposure", [0.05, 0.15, 0.3, 0.5])
def test_teeth_do_not_glow_in_a_dark_portrait(exposure: float) -> None:
    crop = lit(lambda rgb: rgb * exposure)
    brightest = float((drawn(crop) @ LUMA).max())
    assert 0.5 * face_luma(crop, 99) <= brightest <= 1.35 * face_luma(crop, 99) + 2  # neither glow nor vanish
    assert brightest == pytest.approx(exposure * (ordinary() @ LUMA).max(), rel=0.35)


@pytest.mark.parametrize("exposure", [1.5, 2.5])
def test_a_very_bright_portrait_keeps_white_teeth_and_a_dark_mouth(exposure: float) -> None:
    inside = drawn(lit(lambda rgb: rgb * exposure)) @ LUMA
    assert inside.max() > 200 and inside.min() < 70


def test_haze_lies_over_the_mouth_and_its_shadows() -> None:
    crop = lit(lambda rgb: 90 + 0.3 * rgb)
    assert (drawn(crop) @ LUMA).max() < face_luma(crop, 99.5) + 40
    inside = opened(crop) @ LUMA
    assert inside.min() > face_luma(crop, 0.5) - 25
    assert inside.max() < face_luma(crop, 99.5) + 25


@pytest.mark.parametrize("exposure", [1.0, 0.25])
def test_a_black_and_white_portrait_stays_so(exposure: float) -> None:
    assert np.ptp(drawn(lit(lambda rgb: grey(rgb) * exposure)), axis=1).max() <= 2.0


def test_a_black_and_white_portrait_speaks_in_black_and_white() -> None:
    assert np.ptp(opened(lit(grey)), axis=1).max() <= 2.0


def test_a_sepia_jpeg_stays_in_its_hue() -> None:
    hue = np.array([1.12, 0.98, 0.74])
    stream = io.BytesIO()
    Image.fromarray(lit(lambda rgb: grey(rgb) * hue)).save(stream, "JPEG", quality=90)
    inside = drawn(np.asarray(Image.open(stream).convert("RGB")))
    bright = inside[inside @ LUMA > 60]
    assert np.abs(bright / (bright @ LUMA)[:, None] - hue / (hue @ LUMA)).max() < 0.12


def teeth(colours: F64) -> F64:
    """Mean of the brightest tenth, (3,)."""
    luma = colours @ LUMA
    return np.asarray(colours[luma >= np.percentile(luma, 90)].mean(axis=0))


@pytest.mark.parametrize("lamp", [(0.6, 0.9, 1.3), (0.8, 1.2, 0.8), (1.2, 0.8, 0.45), (1.0, 0.35, 0.9)])
def test_a_coloured_lamp_falls_on_the_teeth(lamp: tuple[float, float, float]) -> None:
    """At least half of the lamp's colour is found, and no more than one and a half times."""
    seen = np.log(teeth(drawn(lit(lambda rgb: rgb * np.array(lamp)))) / teeth(ordinary()))
    wanted = np.log(lamp)
    seen, wanted = seen - seen.mean(), wanted - wanted.mean()
    assert 0.5 < float(seen @ wanted) / float(wanted @ wanted) < 1.5


def test_own_teeth_are_found_in_the_dark_too() -> None:
    """A source that shows its teeth, at 15 % light: they are used, and the drawn ones at their ends are as dark as they."""
    picture, points = source(16.0)
    bright, dark = (
        interior((picture * share).astype(np.uint8), points).upper_teeth.astype(np.float64) for share in (1.0, 0.15)
    )
    shown = (bright[..., 3] > 250) & (dark[..., 3] > 250)
    ratio = (dark[shown][:, :3] @ LUMA) / np.maximum(bright[shown][:, :3] @ LUMA, 1.0)
    assert shown.sum() > 500
    assert np.percentile(ratio, 5) > 0.1 and np.percentile(ratio, 95) < 0.22
