"""Which part of the face each pixel of a crop is: from the face parser, or drawn from our own mesh where it is not here."""

from __future__ import annotations

from typing import Final, Protocol

import cv2
import numpy as np
import torch
from torch import nn

from engines.face.topology import FACE_OVAL, LOWER_LIP_INNER, LOWER_LIP_OUTER, UPPER_LIP_INNER, UPPER_LIP_OUTER
from kernels.arrays import F32, U8
from pipeline.musetalk.blend_mask import LABEL_SIDE, LOWER_LIP, MOUTH, NOSE, SKIN, UPPER_LIP

_NOSE: Final = (
    168,
    417,
    465,
    357,
    343,
    437,
    420,
    360,
    344,
    440,
    457,
    274,
    1,
    44,
    237,
    220,
    115,
    131,
    198,
    217,
    114,
    128,
    245,
    193,
)


class FaceLabels(Protocol):
    """Labels the pixels of a crop with the classes of `pipeline.musetalk.blend_mask`."""

    def of(self, crop: U8, mesh: F32) -> U8:
        """Classes uint8 (512, 512) of a crop uint8 (s, s, 3), RGB, with the mesh float32 (468, 2) in its pixels."""
        ...


class ParserLabels:
    """Asks the face parser.

    Args:
        parser: `engines.networks.musetalk.face_parser.FaceParser`.
    """

    def __init__(self, parser: nn.Module) -> None:
        self._parser = parser

    def of(self, crop: U8, mesh: F32) -> U8:
        """Implement `FaceLabels`; the mesh is not looked at."""
        from PIL import Image

        sized = np.asarray(Image.fromarray(crop).resize((LABEL_SIDE, LABEL_SIDE), Image.Resampling.BILINEAR))
        with torch.inference_mode():
            classes = self._parser(torch.from_numpy(sized.copy()).permute(2, 0, 1)[None].float() / 255.0)
        return np.asarray(classes[0].to(torch.uint8).numpy())


class MeshLabels:
    """Fills the outlines of the mesh: skin, nose, lips and what lies between them. There is no neck."""

    def of(self, crop: U8, mesh: F32) -> U8:
        """Implement `FaceLabels`; pixels are not looked at."""
        points = (mesh[:, :2] + 0.5) * (LABEL_SIDE / crop.shape[0]) - 0.5
        labels = np.zeros((LABEL_SIDE, LABEL_SIDE), np.uint8)
        outlines = (
            (FACE_OVAL, SKIN),
            (_NOSE, NOSE),
            ((*UPPER_LIP_OUTER, *reversed(UPPER_LIP_INNER)), UPPER_LIP),
            ((*LOWER_LIP_OUTER, *reversed(LOWER_LIP_INNER)), LOWER_LIP),
            ((*UPPER_LIP_INNER, *reversed(LOWER_LIP_INNER)), MOUTH),
        )
        for outline, label in outlines:
            cv2.fillPoly(labels, [np.rint(points[list(outline)]).astype(np.int32)], label)
        return labels
