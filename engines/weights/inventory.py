"""What lies in the weights cache, and whether it is whole."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engines.weights.home import weights_dir
from engines.weights.record import FileFault, find_faults, pinned_records, record_faults
from engines.weights.sets import WeightsEntry, WheelSource

State = Literal["absent", "ready", "damaged"]


@dataclass(frozen=True)
class WeightsStatus:
    """State of one set of weights.

    Attributes:
        entry: What it is.
        folder: Where it is, or would be.
        state: `absent` (never pulled to the end), `ready`, or `damaged` (see `faults`).
        faults: Every file that is missing, truncated, altered or unreadable.
    """

    entry: WeightsEntry
    folder: Path
    state: State
    faults: tuple[FileFault, ...] = ()

    @property
    def name(self) -> str:
        """Name of the set."""
        return self.entry.name

    @property
    def licence(self) -> str:
        """SPDX identifier."""
        return self.entry.licence

    @property
    def source(self) -> str:
        """Where it comes from, for people."""
        return self.entry.source.label

    @property
    def present(self) -> bool:
        """True when it can be used."""
        return self.state == "ready"

    def __str__(self) -> str:
        """Say in one line for people: the name, the state, and every fault by file."""
        return f"{self.name}: {self.state}" + (f" ({', '.join(map(str, self.faults))})" if self.faults else "")


def weights_status(entry: WeightsEntry, home: Path | str | None = None, deep: bool = True) -> WeightsStatus:
    """State of one set. Without `deep` only presence and sizes are looked at, which is instant even for gigabytes.

    Files with a pin are compared with the pin, so a record cannot vouch for foreign content.
    """
    if entry.folder_env and (named := os.environ.get(entry.folder_env)):
        folder = Path(named).expanduser().absolute()
        found = _pin_faults(entry, folder, deep)
        return WeightsStatus(entry, folder, "damaged" if found else "ready", found)
    return cached_status(entry, home, deep)


def cached_status(entry: WeightsEntry, home: Path | str | None = None, deep: bool = True) -> WeightsStatus:
    """State of the copy in the cache itself, whatever its environment variable says; see `weights_status`."""
    folder = weights_dir(entry.name, home)
    if (faults := record_faults(folder, deep and not isinstance(entry.source, WheelSource))) is None:
        return WeightsStatus(entry, folder, "absent")
    elif faults:
        return WeightsStatus(entry, folder, "damaged", tuple(faults))
    pinned = _pin_faults(entry, folder, deep)
    return WeightsStatus(entry, folder, "damaged" if pinned else "ready", pinned)


def _pin_faults(entry: WeightsEntry, folder: Path, deep: bool) -> tuple[FileFault, ...]:
    if not isinstance(entry.source, WheelSource):
        return ()
    return tuple(find_faults(folder, pinned_records(entry.source.files), deep))
