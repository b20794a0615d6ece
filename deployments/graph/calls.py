"""What travels with every stage call."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class CallContext:
    """Which session a call belongs to, and for how long its result is waited for.

    Attributes:
        session_id: Session or job.
        remaining_ms: Time left when the call was sent; counted anew from its arrival, so no two clocks are compared.
        epoch: Raised by every interruption of the session.
        set_id: Ray node whose stages serve the session; empty for any.
    """

    session_id: str
    remaining_ms: float
    epoch: int = 0
    set_id: str = ""


@dataclass(frozen=True)
class Distribution:
    """How often a value lay in which range.

    Attributes:
        boundaries: Upper ends of the ranges, ascending; an end belongs to its range.
        counts: Values per range, one more than `boundaries`: the last range has no end.
        total: Sum of the values.
    """

    boundaries: tuple[float, ...] = ()
    counts: tuple[int, ...] = (0,)
    total: float = 0.0


@dataclass(frozen=True)
class GpuMemory:
    """Memory of the GPU that one replica works on.

    Attributes:
        total_bytes: Memory of the GPU.
        cap_bytes: What torch gives this process at most.
        reserved_bytes: What torch holds now, unused blocks included; the CUDA context and other libraries are not in it.
        peak_bytes: Most that torch ever held.
    """

    total_bytes: int
    cap_bytes: int
    reserved_bytes: int
    peak_bytes: int


@dataclass(frozen=True)
class StageStats:
    """Counters of one stage replica since it started.

    Attributes:
        stage: Name of the stage.
        replica_id: Which replica.
        calls: Calls that arrived.
        batches: Batches that ran.
        largest_batch: Chunks in the largest batch so far.
        frames: Frames of 40 ms made; for `renderer`, pictures.
        queued: Chunks that wait now.
        dropped: Calls without a result, by reason: `expired`, `cancelled`, `stale`, `overloaded`, `failed`.
        warm: What the replica holds ready, e.g. avatar ids.
        pid: Process of the replica.
        batch_size: Chunks of different sessions per batch.
        wait_ms: From a chunk's arrival to the start of its batch.
        batch_ms: How long a batch ran.
        gpu: Memory of its GPU; None where it runs on the CPU.
    """

    stage: str
    replica_id: str
    calls: int
    batches: int
    largest_batch: int
    frames: int
    queued: int
    dropped: dict[str, int] = field(default_factory=dict)
    warm: tuple[str, ...] = ()
    pid: int = 0
    batch_size: Distribution = Distribution()
    wait_ms: Distribution = Distribution()
    batch_ms: Distribution = Distribution()
    gpu: GpuMemory | None = None
