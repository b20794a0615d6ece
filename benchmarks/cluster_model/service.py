"""Sets of stages on GPUs, sessions and files that call them, and the rules of placement and admission."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from benchmarks.cluster_model.costs import FRAME_S, Costs
from benchmarks.cluster_model.engine import Chunk, Events, Gpu, Replica

Placement = Literal["sets", "shared"]
Routing = Literal["session", "calls", "avatar"]
Stage = Literal["audio", "motion", "render"]
MARGIN_S: Final = 0.08
LONGEST_S: Final = 0.5
RESERVE: Final = 1.25
LATE_FRAMES: Final = 8
CREDITS: Final = 3
LEARNING: Final = 0.25
HIGHEST_COST_S: Final = 0.08
FILE_CHUNK: Final = 8
FILE_CREDITS: Final = 3
SLACK: Final = 1.25


@dataclass(frozen=True)
class Cluster:
    """Describes the cluster that is simulated.

    Attributes:
        costs: Costs of the stages.
        gpus: Number of GPUs.
        placement: `sets`: one of every stage on each GPU. `shared`: where Ray's best fit puts two sets on two GPUs: both renderers
            on one, everything else on the other.
        routing: `session`: a session stays with the set that has the fewest. `calls`: each call to the emptier of two replicas.
            `avatar`: each call of a renderer to the one avatar's home, while that has at most 1.25 times the mean load.
        tokens: Sessions that a set takes in; None admits all.
        batch: Most windows in a batch of the two small stages.
        chunk: Frames of one render call.
        gather_s: How long a batch of the two small stages may wait for sessions that are due together.
    """

    costs: Costs
    gpus: int = 1
    placement: Placement = "sets"
    routing: Routing = "session"
    tokens: int | None = None
    batch: int = 16
    chunk: int = 4
    gather_s: float = 0.0


class Service:
    """The running service.

    Args:
        cluster: The cluster that is simulated.
        seed: Seed of phases and choices.
    """

    def __init__(self, cluster: Cluster, seed: int = 0) -> None:
        self.cluster, self.costs = cluster, cluster.costs
        self.events = Events()
        self.draw = random.Random(seed)  # noqa: S311  # reproducible draws, no secrets
        self.gpus = [Gpu(self.events, self.costs.switching) for _ in range(cluster.gpus)]
        self.stages: dict[Stage, list[Replica]] = {"audio": [], "motion": [], "render": []}
        self.held = [0] * cluster.gpus
        self.refused = 0
        for index in range(cluster.gpus):
            small, large = (index, index) if cluster.placement == "sets" else (0, cluster.gpus - 1)
            self._add("audio", small, lambda batch: self.costs.audio_ms(len(batch)), cluster.batch)
            self._add("motion", small, self._motion_ms, cluster.batch)
            self._add("render", large, lambda batch: self.costs.render * sum(c.frames for c in batch), 1)

    def _motion_ms(self, batch: list[Chunk]) -> float:
        windows = sum(not chunk.clip for chunk in batch)
        clip_ms = self.costs.motion_clip * sum(chunk.frames for chunk in batch if chunk.clip)
        return clip_ms + (self.costs.motion_ms(windows) if windows else 0.0)

    def _add(self, stage: Stage, gpu: int, cost_ms: Callable[[list[Chunk]], float], batch: int) -> None:
        name = sum(len(replicas) for replicas in self.stages.values())
        host_ms, gather_s = (self.costs.host, 0.0) if stage == "render" else (0.0, self.cluster.gather_s)
        self.stages[stage].append(Replica(self.events, self.gpus[gpu], name, cost_ms, batch, host_ms, gather_s))

    def admit(self) -> int | None:
        """The set of a new session; None where there is no room."""
        index = min(range(len(self.held)), key=lambda one: self.held[one])
        if self.cluster.tokens is not None and self.held[index] >= self.cluster.tokens:
            self.refused += 1
            return None
        self.held[index] += 1
        return index

    def replica(self, stage: Stage, home: int) -> Replica:
        """Where a call goes."""
        found = self.stages[stage]
        if len(found) == 1:
            return found[0]
        if self.cluster.routing == "session":
            return found[home]
        if self.cluster.routing == "avatar" and stage == "render":
            bound = math.ceil(SLACK * (sum(one.in_flight for one in found) + 1) / len(found))
            return next((one for one in found if one.in_flight < bound), found[0])
        first, second = self.draw.sample(found, 2)
        return first if first.in_flight <= second.in_flight else second


@dataclass(eq=False)
class Session:
    """A simulated session that speaks all the time.

    Attributes:
        service: The service that it runs on.
        number: Number of the session.
        home: Number of its set.
        begins: Seconds at which its first hop is heard.
        counts_from: Pictures due before this are not counted.
        due: Pictures that were due.
        late: Pictures of these that did not come in time, including dropped ones.
        dropped: Pictures of these that were left out before they were drawn.
    """

    service: Service
    number: int
    home: int
    begins: float
    counts_from: float
    due: int = 0
    late: int = 0
    dropped: int = 0
    chains: list[float] = field(default_factory=list)
    compute: float = MARGIN_S
    _busy: bool = False
    _heard: list[float] = field(default_factory=list)
    _lately: int = 0
    _wanted: list[tuple[list[float], float]] = field(default_factory=list)
    _asked: list[int] = field(default_factory=list)
    _cost: float = 0.0
    _answered: float = 0.0

    def start(self) -> None:
        """Begin."""
        self.service.events.at(self.begins, self._hear)

    def _hear(self) -> None:
        """A hop of audio is complete; the next one will be in a hop's time."""
        now = self.service.events.now
        self.service.events.after(self.service.costs.hop * FRAME_S, self._hear)

        def encoded() -> None:
            self._heard.append(now)
            if not self._busy:
                self._move()

        self._call("audio", now, encoded)

    def _move(self) -> None:
        """Motion of the oldest hop that waits: it follows from that of the hop before."""
        if not self._heard:
            self._busy = False
            return
        self._busy, heard = True, self._heard.pop(0)
        self._call("motion", heard, lambda: self._draw(heard))

    def _draw(self, heard: float) -> None:
        dues = [heard + self.compute + index * FRAME_S for index in range(self.service.costs.hop)]
        chunk = self.service.cluster.chunk
        self._wanted += [(dues[start : start + chunk], heard) for start in range(0, len(dues), chunk)]
        self._pictures()
        self._move()

    def _pictures(self) -> None:
        """Ask for pictures that wait, some calls ahead; like the product, leave out pictures that would come too late."""
        while self._wanted and len(self._asked) < CREDITS:
            dues, heard = self._wanted.pop(0)
            late = self._too_late(dues)
            for due in dues[:late]:
                self._seen(due, math.inf)
            if late < len(dues):
                self._ask(dues[late:], heard)

    def _too_late(self, dues: list[float]) -> int:
        now, waiting = self.service.events.now, sum(self._asked)
        passed = sum(due < now for due in dues)
        for skipped in range(passed, len(dues)):
            if dues[skipped] >= now + self._cost * (waiting + len(dues) - skipped):
                return skipped
        return len(dues) if waiting or passed == len(dues) else len(dues) - 1

    def _ask(self, dues: list[float], heard: float) -> None:
        service, begun = self.service, self.service.events.now
        self._asked.append(len(dues))

        def done() -> None:
            service.events.after(service.costs.pictures_ms / 1000, lambda: self._arrived(dues, heard, begun))

        service.replica("render", self.home).submit(Chunk(self.number, len(dues), dues[0], done))

    def _arrived(self, dues: list[float], heard: float, begun: float) -> None:
        now = self.service.events.now
        self._asked.remove(len(dues))
        taken = (now - max(begun, self._answered)) / len(dues)
        self._cost += (LEARNING if self._cost else 1.0) * (min(taken, HIGHEST_COST_S) - self._cost)
        self._answered = now
        self.chains = [*self.chains[-19:], now - heard]
        for due in dues:
            self._seen(due, now)
        self._pictures()

    def _seen(self, due: float, at: float) -> None:
        late = at > due
        if due >= self.counts_from:
            self.due += 1
            self.late += late
            self.dropped += at == math.inf
        self._lately += late
        if self._lately >= LATE_FRAMES:  # who speaks without a pause gets more time at once
            chain = sorted(self.chains)[int(0.9 * len(self.chains))] if self.chains else 0.0
            self.compute = max(self.compute, MARGIN_S, min(RESERVE * chain, LONGEST_S))
            self._lately = 0

    def _call(self, stage: Stage, heard: float, then: Callable[[], None]) -> None:
        service = self.service
        half = service.costs.call_ms / 2000

        def done() -> None:
            service.events.after(half, then)

        chunk = Chunk(self.number, service.costs.hop, heard + self.compute, done)
        service.events.after(half, lambda: service.replica(stage, self.home).submit(chunk))


@dataclass(eq=False)
class File:
    """A job that asks for pictures as fast as it gets them, some calls ahead."""

    service: Service
    number: int
    home: int
    frames: int = 0
    _asked: int = 0

    def start(self) -> None:
        """Begin with all credits."""
        for _ in range(FILE_CREDITS):
            self._ask()

    def _ask(self) -> None:
        service, number = self.service, self.number * FILE_CREDITS + self._asked % FILE_CREDITS
        self._asked += 1
        now, call_s = service.events.now, service.costs.call_ms / 1000

        def drawn() -> None:
            self.frames += FILE_CHUNK
            service.events.after(service.costs.pictures_ms / 1000, self._ask)

        def draw() -> None:
            service.replica("render", self.home).submit(Chunk(number, FILE_CHUNK, service.events.now, drawn))

        def move() -> None:
            service.replica("motion", self.home).submit(Chunk(number, FILE_CHUNK, now, draw, clip=True))

        service.events.after(call_s, move)
