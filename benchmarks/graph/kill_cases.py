"""The cases of `benchmarks.capacity` in which processes die, each row written as soon as a kill was seen to its end."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.core.record import BenchmarkRecord
from benchmarks.core.time_budget import TimeBudget
from benchmarks.graph.survival import Kill, Patience, Survival, Victim
from benchmarks.graph.victims import host_victim, node_victim, stage_victims
from benchmarks.graph.watched import Seen, watching
from benchmarks.live.rig import replica_pids
from kernels.errors import LiveAnchorError
from serve_app.cluster.own import Cluster

KILL_CASES: Final = ("stage_kills", "host_kills", "node_loss", "stage_kills_alone")
BEFORE: Final = "without a kill, same viewers"
Row = Callable[..., BenchmarkRecord]


class KillCases:
    """Kills processes under viewers that stay for all cases.

    Args:
        cluster: Where the service runs.
        url: Address of the service.
        speech: Path of what viewers say again and again, without pauses.
        viewers: Number of viewers.
        rounds: Number of kills of each kind; a node dies once.
        budget: How much time is left.
        row: Makes a record.
        raw: Filled in with every kill.
        patience: How long things may take.
    """

    def __init__(
        self,
        cluster: Cluster,
        url: str,
        speech: Path,
        viewers: int,
        rounds: int,
        budget: TimeBudget,
        row: Row,
        raw: dict[str, Any],
        patience: Patience,
    ) -> None:
        self._cluster, self._url, self._speech, self._viewers, self._rounds = cluster, url, speech, viewers, rounds
        self._budget, self._row, self._raw, self._patience = budget, row, raw, patience
        self._stack = ExitStack()
        self._seen: Callable[[], list[Seen]] | None = None

    def run(self, name: str, keep: Callable[[list[BenchmarkRecord]], None]) -> None:
        """Run one of `KILL_CASES`.

        Args:
            name: Which one.
            keep: Told of the rows after every kill, the worst so far in each.

        Raises:
            LiveAnchorError: Some kills were not seen to their ends, or there was no time for them.
        """
        sets = len(replica_pids("Renderer"))
        gap = {"host_kills": "host_kill_gap_ms", "node_loss": "node_loss_gap_ms"}.get(
            name, "stage_kill_gap_ms" if sets > 1 else "stage_restart_gap_ms"
        )
        found: list[Kill] = []

        def seen_to_its_end(kill: Kill) -> None:
            found.append(kill)
            self._raw.setdefault(name, []).append(asdict(kill))
            print(f"  {_said(kill)}", flush=True)
            keep(self._rows(gap, found))

        failed = self._survival().kills(
            self._victims(name), 1 if name == "node_loss" else self._rounds, seen_to_its_end
        )
        if failed:
            raise LiveAnchorError("; ".join(failed))

    def close(self) -> None:
        """Send the viewers away; they come again for the next case."""
        self._seen = None
        self._stack.close()

    def _survival(self) -> Survival:
        if self._seen is None:
            self._seen = self._stack.enter_context(watching(self._url, self._viewers, self._speech))
        return Survival(self._seen, self._budget, time.monotonic, threading.Event().wait, _die, self._patience)

    def _victims(self, name: str) -> list[Victim]:
        if name == "host_kills":
            return [host_victim(self._cluster)]
        return [node_victim()] if name == "node_loss" else stage_victims()

    def _rows(self, gap: str, kills: Sequence[Kill]) -> list[BenchmarkRecord]:
        base = (BEFORE, max(kill.before_ms for kill in kills))
        if gap in ("host_kill_gap_ms", "node_loss_gap_ms"):  # there, the voice's absence counts
            worst = max(max(kill.gap_ms, kill.voice_gap_ms) for kill in kills)
            return [self._row(gap, "ms", [worst], False, n=len(kills), base=base)]
        voice = max(kill.voice_gap_ms for kill in kills)
        return [
            self._row(gap, "ms", [max(kill.gap_ms for kill in kills)], False, n=len(kills), base=base),
            self._row(gap.replace("_gap", "_voice_gap"), "ms", [voice], False, n=len(kills)),
            self._row("replica_back_s", "s", [max(kill.back_s for kill in kills)], False, n=len(kills)),
        ]


def _said(kill: Kill) -> str:
    return (
        f"{kill.what}: nothing drawn for {kill.gap_ms:.0f} ms ({kill.before_ms:.0f} before), no picture for "
        f"{kill.picture_gap_ms:.0f}, no voice for {kill.voice_gap_ms:.0f}, silence put in {kill.inserted_ms:.0f}, back in "
        f"{kill.back_s:.1f} s, {kill.moved} viewers stood again, told {', '.join(kill.told) or 'nothing'}"
    )


def _die(pid: int) -> None:
    with suppress(ProcessLookupError):  # its parent's death may have taken it along
        os.kill(pid, signal.SIGKILL)
