"""Finds the TensorRT library: the classic `tensorrt`, or `tensorrt_rtx` for GeForce and RTX cards.

Both have the same Python API, so that everything after this file knows one object, `Library`. Nothing is imported before
`find_library` is called. The bindings of `tensorrt_rtx` come without their shared libraries; these are looked for in the packages
that are known to carry them and loaded beforehand, else the loader's own search path must have them.
"""

from __future__ import annotations

import ctypes
import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal

from engines.tensorrt.errors import TensorRtMissingError
from kernels.errors import first_line

Flavour = Literal["tensorrt", "tensorrt_rtx"]
FLAVOURS: Final[tuple[Flavour, ...]] = ("tensorrt", "tensorrt_rtx")

_MODULES: Final[dict[Flavour, tuple[str, ...]]] = {
    "tensorrt": ("tensorrt",),
    "tensorrt_rtx": ("tensorrt_rtx", "tensorrt_rtx_bindings"),
}
_SHARED: Final[dict[Flavour, tuple[str, ...]]] = {
    "tensorrt": (),
    "tensorrt_rtx": ("libtensorrt_rtx.so", "libtensorrt_onnxparser_rtx.so"),
}
"""Shared libraries to load before the bindings, in this order; the classic package loads its own."""
_CARRIERS: Final = ("tensorrt_rtx_libs", "onnxruntime_ep_nv_tensorrt_rtx")
"""Packages that may carry them."""
_OLDEST: Final[dict[Flavour, tuple[int, int]]] = {"tensorrt": (10, 15), "tensorrt_rtx": (1, 2)}
_FIRST_TOO_NEW: Final[dict[Flavour, int]] = {"tensorrt": 12, "tensorrt_rtx": 2}
ADVICE: Final[dict[Flavour, str]] = {
    "tensorrt": "pip install 'liveanchor[tensorrt]' (data-centre and other GPUs)",
    "tensorrt_rtx": "pip install 'liveanchor[tensorrt-rtx]' (GeForce and RTX cards, and builds on machines without a GPU)",
}
_CAPABILITY: Final = re.compile(r"^SM(\d{2,3})$")


@dataclass(frozen=True)
class Library:
    """A TensorRT library, imported.

    Attributes:
        flavour: Which of the two.
        version: Its version, as it says.
        api: The module.
    """

    flavour: Flavour
    version: str
    api: Any

    @property
    def portable(self) -> bool:
        """True where engines are built for a compute capability, on any machine; False where only for the card in this one."""
        return self.flavour == "tensorrt_rtx"

    def capabilities(self) -> tuple[str, ...]:
        """What it can build for without such a card, e.g. `("sm_80", "sm_120")`; empty where it cannot."""
        if not self.portable:
            return ()
        members = vars(getattr(self.api, "ComputeCapability", object)).keys()
        found = sorted(int(match.group(1)) for name in members if (match := _CAPABILITY.match(name)))
        return tuple(f"sm_{number}" for number in found)


@dataclass(frozen=True)
class Absence:
    """Why a library cannot be used.

    Attributes:
        flavour: Which of the two.
        reason: In a few words.
        advice: What to do.
    """

    flavour: Flavour
    reason: str
    advice: str


def look_for(
    flavour: Flavour,
    importer: Callable[[str], Any] = importlib.import_module,
    load_shared: Callable[[Path], object] | None = None,
) -> Library | Absence:
    """Import one of the two.

    Args:
        flavour: Which.
        importer: Imports a module by name.
        load_shared: Loads a shared library for the whole process.
    """
    problem = "not installed"
    loader = load_shared or _load_shared
    for name in _MODULES[flavour]:
        try:
            for path in shared_libraries(flavour):
                loader(path)
            api = importer(name)
            version = str(api.__version__)
        except ModuleNotFoundError as error:
            if error.name != name:
                problem = f"{name} needs {error.name}"
            continue
        except (ImportError, OSError, RuntimeError, AttributeError) as error:
            problem = f"{name} does not load ({first_line(error, 160)})"
            continue
        if (out_of_range := _unfit(flavour, version)) is not None:
            return Absence(flavour, out_of_range, ADVICE[flavour])
        return Library(flavour, version, api)
    return Absence(flavour, problem, ADVICE[flavour])


def find_library(wanted: Flavour | None = None, *, has_gpu: bool | None = None) -> Library:
    """The library to use.

    Args:
        wanted: One of the two, or None: the classic one where it is installed and there is a GPU to build for, else the other.
        has_gpu: Whether there is a GPU; None asks torch.

    Raises:
        TensorRtMissingError: Neither can be used; the message says why and what to install.
    """
    if has_gpu is None:
        import torch

        has_gpu = torch.cuda.is_available()
    order = (wanted,) if wanted else FLAVOURS if has_gpu else ("tensorrt_rtx",)
    absent: list[Absence] = []
    for flavour in order:
        found = look_for(flavour)
        if isinstance(found, Library):
            return found
        absent.append(found)
    reasons = ", ".join(f"{one.flavour} is {one.reason}" for one in absent)
    raise TensorRtMissingError(reasons, " or ".join(one.advice for one in absent))


def shared_libraries(flavour: Flavour, locate: Callable[[str], Path | None] | None = None) -> tuple[Path, ...]:
    """Files to load before the bindings, all from one package, or none.

    Args:
        flavour: Which library.
        locate: Name of a package -> its folder, None where it is not installed.
    """
    for carrier in _CARRIERS if _SHARED[flavour] else ():
        folder = (locate or _package_folder)(carrier)
        if folder is None:
            continue
        files = [max(folder.glob(f"{stem}.*"), key=_version_of, default=None) for stem in _SHARED[flavour]]
        if all(file is not None for file in files):
            return tuple(file for file in files if file is not None)
    return ()


def _package_folder(name: str) -> Path | None:
    spec = find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _load_shared(path: Path) -> object:
    return ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _version_of(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.name.rpartition(".so.")[2].split(".") if part.isdigit())


def _unfit(flavour: Flavour, version: str) -> str | None:
    parts = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if len(parts) == 2 and _OLDEST[flavour] <= parts and parts[0] < _FIRST_TOO_NEW[flavour]:
        return None
    oldest = ".".join(map(str, _OLDEST[flavour]))
    return f"of version {version}, needed at least {oldest} and below {_FIRST_TOO_NEW[flavour]}"
