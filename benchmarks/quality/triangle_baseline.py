"""The baseline of the renderer benchmark: a piecewise-affine mesh warp that fills every deformed triangle on its own.

The usual way to animate a portrait on a CPU: triangulate the landmarks with two rings of head points and a fixed border, move
the vertices, fill one polygon per triangle into an index map, solve each triangle's affine map and sample the whole frame
bicubically. It draws neither teeth nor lids.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay

from engines.face.topology import FACE_OVAL
from engines.mini.mesh_lattice import CROP
from kernels.arrays import F32, U8

SUBPIXEL_BITS = 4


@dataclass(frozen=True)
class TriangleMesh:
    """A triangulated portrait: picture uint8 (512, 512, 3), vertices float32 (v, 2) in crop pixels, triangles (t, 3)."""

    picture: U8
    vertices: F32
    triangles: NDArray[np.int32]


def triangulate(picture: U8, landmarks: F32) -> TriangleMesh:
    """Landmarks (468, 3), two rings around the face and the border, as one Delaunay mesh."""
    face = landmarks[:, :2]
    centre = face.mean(0)
    oval = face[list(FACE_OVAL)] - centre
    steps = np.linspace(0, CROP - 1, 17, dtype=np.float32)
    border = np.array([(x, y) for x in steps for y in steps if x in (0, CROP - 1) or y in (0, CROP - 1)], np.float32)
    points = np.concatenate([face, centre + 1.3 * oval, centre + 1.6 * oval])
    inside = ((points > 0) & (points < CROP - 1)).all(1)
    vertices = np.concatenate([points[inside], border]).astype(np.float32)
    return TriangleMesh(picture, vertices, Delaunay(vertices).simplices.astype(np.int32))


def warp_triangles(mesh: TriangleMesh, moved: F32) -> U8:
    """Draw the picture with its vertices at `moved` float32 (v, 2)."""
    corners = moved[mesh.triangles]
    polygons = np.round(corners * (1 << SUBPIXEL_BITS)).astype(np.int32)
    index = np.zeros((CROP, CROP), np.int32)
    for number, polygon in enumerate(polygons):
        cv2.fillConvexPoly(index, polygon, number, lineType=cv2.LINE_8, shift=SUBPIXEL_BITS)
    system = np.concatenate([corners, np.ones((len(corners), 3, 1), np.float32)], axis=2)
    system[np.abs(np.linalg.det(system)) < 1e-3] = np.eye(3, dtype=np.float32)
    affine = np.linalg.solve(system, mesh.vertices[mesh.triangles]).astype(np.float32)[index]
    ys, xs = np.mgrid[0:CROP, 0:CROP].astype(np.float32)
    map_x = xs * affine[..., 0, 0] + ys * affine[..., 1, 0] + affine[..., 2, 0]
    map_y = xs * affine[..., 0, 1] + ys * affine[..., 1, 1] + affine[..., 2, 1]
    return np.asarray(cv2.remap(mesh.picture, map_x, map_y, cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE), np.uint8)
