"""Do the files of a weight set hold what they must? Beyond sizes and digests: they are opened and loaded strictly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final


def check_content(name: str, folder: Path) -> tuple[str, ...]:
    """Open the files of a set as its family will; sets without such a check pass.

    Args:
        name: Name in the registry.
        folder: Where the files lie.

    Returns:
        What was found, a line each, for people.

    Raises:
        WeightsFileError: A file is missing, damaged, or of another network.
        UnsafePickleError: A configuration asks for more than data.
    """
    return _CHECKS[name](folder) if name in _CHECKS else ()


def _check_ditto(folder: Path) -> tuple[str, ...]:
    from engines.ditto.checkpoints import check_networks
    from engines.ditto.config import load_config
    from engines.ditto.hubert.onnx import Hubert

    check_networks(folder)
    with TemporaryDirectory(prefix="liveanchor-") as cache:  # the folder may be somebody else's
        load_config(folder, "offline", Path(cache))
        load_config(folder, "online", Path(cache))
    Hubert(folder)
    return ()


def _check_rife(folder: Path) -> tuple[str, ...]:
    from engines.rife.sources import check_checkpoints

    return check_checkpoints(folder)


_CHECKS: Final[dict[str, Callable[[Path], tuple[str, ...]]]] = {
    "ditto": _check_ditto,
    "rife": _check_rife,
    "rife40": _check_rife,
}
