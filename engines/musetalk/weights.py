"""The public MuseTalk checkpoints as a set of weights."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engines.musetalk import FAMILY
from engines.weights.sets import HubGroup, HubSource, WeightsEntry


def check_checkpoints(folder: Path) -> tuple[str, ...]:
    """Load every network strictly; says which painter, decoder and face parser the family would run.

    Raises:
        WeightsFileError: A file is missing, damaged, or of another network.
        ExtraMissingError: The extra `musetalk` is not installed.
    """
    from engines.musetalk.checkpoints import check_networks

    return check_networks(folder)


CHECKPOINTS: Final = WeightsEntry(
    name=FAMILY,
    purpose="the family `musetalk` (GPU): the painter (v1.5, v1.0), sd-vae-ft-mse, TAESD, Whisper tiny, BiSeNet",
    licence="MIT AND CreativeML-OpenRAIL-M AND Apache-2.0",
    approx_bytes=7_500_000_000,
    source=HubGroup(
        (
            (
                "",
                HubSource(
                    "TMElyralab/MuseTalk",
                    "main",
                    (
                        "musetalkV15/unet.pth",
                        "musetalkV15/musetalk.json",
                        "musetalk/pytorch_model.bin",
                        "musetalk/musetalk.json",
                    ),
                ),
            ),
            ("sd-vae", HubSource("stabilityai/sd-vae-ft-mse", "main", ("config.json", "diffusion_pytorch_model.*"))),
            (
                "whisper",
                HubSource(
                    "openai/whisper-tiny", "main", ("config.json", "preprocessor_config.json", "pytorch_model.bin")
                ),
            ),
            (
                "taesd",
                HubSource("madebyollin/taesd", "main", ("config.json", "diffusion_pytorch_model.*", "taesd_decoder.*")),
            ),
            (
                "face-parse-bisent",
                HubSource("ManyOtherFunctions/face-parse-bisent", "main", ("79999_iter.pth", "config.json")),
            ),
        )
    ),
    check=check_checkpoints,
)
