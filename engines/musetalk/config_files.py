"""The configuration files next to the weights: read as data, only what a network of this family has, within bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from engines.weights.file import WeightsFileError

MAX_WIDTH: Final = 4096
MAX_BYTES: Final = 1 << 16
UNET: Final[Mapping[str, Any]] = {
    "sample_size": 64, "in_channels": 8, "out_channels": 4, "center_input_sample": False, "flip_sin_to_cos": True,
    "freq_shift": 0, "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3, "block_out_channels": [320, 640, 1280, 1280],
    "layers_per_block": 2, "downsample_padding": 1, "mid_block_scale_factor": 1, "act_fn": "silu",
    "norm_num_groups": 32, "norm_eps": 1e-5, "cross_attention_dim": 384, "attention_head_dim": 8,
}  # fmt: skip
"""`musetalk.json`: the public values, which a file may say otherwise. A head count is called `attention_head_dim` there."""
VAE: Final[Mapping[str, Any]] = {
    "in_channels": 3, "out_channels": 3, "latent_channels": 4, "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4, "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
    "act_fn": "silu", "norm_num_groups": 32, "sample_size": 256,
}  # fmt: skip
TAESD: Final[Mapping[str, Any]] = {
    "in_channels": 3, "out_channels": 3, "latent_channels": 4, "encoder_block_out_channels": [64] * 4,
    "decoder_block_out_channels": [64] * 4, "num_encoder_blocks": [1, 3, 3, 3], "num_decoder_blocks": [3, 3, 3, 1],
    "act_fn": "relu", "upsampling_scaling_factor": 2,
}  # fmt: skip
WHISPER: Final[Mapping[str, Any]] = {
    "d_model": 384, "encoder_layers": 4, "encoder_attention_heads": 6, "encoder_ffn_dim": 1536, "num_mel_bins": 80,
    "max_source_positions": 1500,
}  # fmt: skip
PARSER: Final[Mapping[str, Any]] = {"width": 64}


def read_config(path: Path, known: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a network: the known ones, each from the file where it is there.

    Options that the file has and we do not know are left out: they are bookkeeping of the library, or the weights would not fit.

    Args:
        path: The file; where there is none, the known values hold.
        known: Option -> its value in the public file.

    Raises:
        WeightsFileError: No JSON object, or a value of another type or out of bounds; it names the option.
    """
    if not path.is_file():
        return dict(known)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise WeightsFileError(str(path), "", f"is larger than {MAX_BYTES} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsFileError(str(path), "", f"is no JSON file ({str(error)[:100]})") from error
    if not isinstance(content, dict):
        raise WeightsFileError(str(path), "", "is not a JSON object")
    return {
        name: _checked(path, name, content[name], usual) if name in content else usual for name, usual in known.items()
    }


def _checked(path: Path, name: str, value: Any, usual: Any) -> Any:
    if isinstance(usual, list):
        if not isinstance(value, list) or not 1 <= len(value) <= 8:
            raise WeightsFileError(str(path), name, f"is {str(value)[:40]!r}, needed a list of 1 to 8")
        return [_checked(path, name, one, usual[0]) for one in value]
    numbers = isinstance(usual, int | float) and not isinstance(usual, bool)
    if numbers and isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MAX_WIDTH:
        return value
    if not numbers and type(value) is type(usual) and len(str(value)) <= 40:
        return value
    raise WeightsFileError(str(path), name, f"is {str(value)[:40]!r}, needed something like {usual!r}")
