"""The model card of the embedded interpolation network, written from the numbers of the run that made it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

CARD_FILE: Final = "MODEL_CARD.md"
_INTRODUCTION: Final = """# Weights of `rife/mini`, the embedded frame interpolation network

`mini.safetensors`: an IFNet with the graph of RIFE 4.25 and four narrow blocks (96, 64, 48, 32 channels at 1/8 to 1/1 of the
size), 1.5 million parameters; flow and logit of the last block are averaged over 5 x 5 pixels. It makes the frame at any time
between two frames of a talking face, so that neural families offer 50 frames/s without a download. The public RIFE weights
(`liveanchor weights pull rife`) know far more of the world: prefer them where they may be downloaded.

* **Data**: made by code. Half are clips of our own drawing, reshaped, recoloured and textured by chance and moved by our mesh
  renderer; half are moving textures with occlusion and mouth-like openings. No photo, video or recording of a person, and
  no output of another network was used.
* **Weak**: large or fast motion (beyond some 20 pixels between two frames at 512 x 512), hands, hair, and everything else
  that is neither a face nor a texture. Between an open and a closed mouth it can only use what either frame shows.
* **Held out**: the drawing as it comes, which is the default presenter; it shares its shapes with the training faces.
* **Licence**: Apache-2.0, like the code.

## Recipe

`python -m training.train_rife faces`, then `python -m training.train_rife train` on a GPU.

| what | value |
|---|---|
"""
_NUMBERS: Final = """## Held-out numbers (PSNR, dB)

Frames 25 to 60 ms apart, the frame in the middle left out. PSNR is not what an eye sees; it is here because losses show in it
too."""


def rife_card(report: Mapping[str, Any]) -> str:
    """Markdown of a training report.

    Args:
        report: `recipe` (name -> value) and `evaluation` (part -> measure -> dB), as `training.train_rife` writes it.
    """
    recipe = "\n".join(f"| {key} | {value} |" for key, value in report["recipe"].items())
    lines = [_INTRODUCTION + recipe, "", _NUMBERS]
    for part, measures in report["evaluation"].items():
        lines += ["", f"### {part}", "", "| measure | dB |", "|---|---|"]
        lines += [f"| {key} | {value:.2f} |" for key, value in measures.items()]
    return "\n".join(lines) + "\n"
