"""The stage `rife` in this process, behind a thread of its own, for any family's local stages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from kernels.errors import InvalidInputError
from pipeline.config import RifeSettings
from pipeline.rife.access import network_name, refuse_rate, why_not
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.rife.stage import Rife, RifeItem
from pipeline.session.tail import Tail
from pipeline.stages import CropsInWork, RifeRequest
from pipeline.types import CropBatch, Nv12RectBatch

PAIRS_PER_CALL_GPU = 8


MakeTail = Callable[[FrameInterpolator], Tail]
"""Makes a family's tail."""


def load_rife(settings: RifeSettings, make_tail: MakeTail, device: str) -> Rife:
    """The stage with its network.

    Raises:
        WeightsError: The network's weights are not here, or damaged; the message says what to do.
    """
    from engines.rife import load_interpolator  # here: at 25 frames/s it is not needed

    interpolator = load_interpolator(network_name(settings), device)
    pairs = 1 if device == "cpu" else PAIRS_PER_CALL_GPU
    return Rife(interpolator, make_tail(interpolator), device, pairs, interpolator.name)


class LocalCrops:
    """`pipeline.stages.CropsInWork` in this process.

    Args:
        work: Draws the crops.
    """

    def __init__(self, work: Awaitable[CropBatch]) -> None:
        self._task = asyncio.ensure_future(work)

    async def result(self) -> CropBatch:
        """The crops; may be asked for more than once, and cancelling who waits does not cancel the work."""
        return await asyncio.shield(self._task)

    def cancel(self) -> None:
        """Implement `CropsInWork`."""
        self._task.cancel()


class LocalRife:
    """Runs chunks one after the other; the network is loaded at the first one.

    Args:
        make_tail: Makes the family's tail.
        settings: Which network; whether a CPU may run it.
        device: Torch device.
        load: Makes the stage.
    """

    def __init__(
        self,
        make_tail: MakeTail,
        settings: RifeSettings,
        device: str,
        load: Callable[[RifeSettings, MakeTail, str], Rife] = load_rife,
    ) -> None:
        self._make_tail = make_tail
        self._settings = settings
        self._device = device
        self._load = load
        self._stage: Rife | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="rife")

    def check(self, fps: float) -> None:
        """Refuse a frame rate before anything is drawn.

        Raises:
            InvalidInputError: A CPU may not interpolate here.
        """
        if reason := why_not(self._settings, self._device):
            raise refuse_rate(fps, reason)

    async def run(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """Implement `pipeline.stages.Stages.rife`.

        Raises:
            InvalidInputError: A CPU may not interpolate here, or crops of other stages.
        """
        self.check(request.fps)
        if not isinstance(crops, LocalCrops) or not isinstance(before, LocalCrops | None):
            raise InvalidInputError("crops", "crops of other stages", "what `crops` of these stages returned")
        item = RifeItem(request, await crops.result(), None if before is None else await before.result())
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, item)

    def close(self) -> None:
        """End the thread; work that has begun is finished first."""
        self._thread.shutdown()

    def _run(self, item: RifeItem) -> Nv12RectBatch:
        if self._stage is None:
            self._stage = self._load(self._settings, self._make_tail, self._device)
        return self._stage.run_one(item)
