"""Plans of motion without making any: what tests compare."""

from __future__ import annotations

from dataclasses import replace

from kernels.arrays import F32
from pipeline.clock import motion_frame_count
from pipeline.config import SilenceSettings
from pipeline.session.pcm_buffer import PcmBuffer
from pipeline.session.planner import Doing, Frames, Planner, Rules, Turn
from pipeline.session.speech_scan import SpeechScan


class Plan:
    """What every frame is made of, as steps say; a turn forgets what was planned from its frame on."""

    def __init__(self) -> None:
        self.frames: dict[int, Doing] = {}
        self.hops: list[int] = []

    def turn(self, turn: Turn) -> None:
        self.frames = {at: doing for at, doing in self.frames.items() if at < turn.first}
        self.hops = [first for first in self.hops if first < turn.first]

    def make(self, frames: Frames) -> None:
        if frames.doing is Doing.SPEECH:
            self.hops.append(frames.first)
        self.frames.update(dict.fromkeys(range(frames.first, frames.first + frames.count), frames.doing))

    def until(self, frames: int) -> list[Doing]:
        """Of all frames from the first one on; idle where nothing was planned."""
        return [self.frames.get(frame, Doing.IDLE) for frame in range(frames)]


def plan_file(pcm: F32, rules: Rules, settings: SilenceSettings) -> Plan:
    """The plan of a file, float32 (n,), whose samples are all there."""
    buffer = PcmBuffer()
    buffer.append(pcm)
    scan, planner, plan = SpeechScan(buffer, settings), Planner(rules), Plan()
    while planner.next < motion_frame_count(len(pcm)):
        scan.look(planner.needed, 0)
        step = planner.step(scan, planner.next, planner.next)
        assert step is not None
        if isinstance(step, Turn):
            plan.turn(step)
        else:
            plan.make(step)
        planner = planner.after(step)
    return plan


def as_a_file(rules: Rules) -> Rules:
    """The rules of a live session for a face that has no loop: idle motion and fades are made frame by frame."""
    return replace(rules, idle=1, fade=1)
