"""Window logic of the Ditto family, offline and online, against stored outputs of the reference, all scenarios."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.ditto.formula import FILL, SALT, filled
from engines.diffusion import ddim_sample, ddim_steps
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.ditto.condition import Condition, emotion_sequence
from pipeline.ditto.motion_fields import mirror_index, to_vector
from pipeline.ditto.motion_windows import Sampler, WindowSettings
from tests.golden.support import golden, motion_info, normal
from tests.support.reference_motion import OnlineMotion, offline_motion

MAX_ERROR = 1e-5
RESET = {"reset_every": 1, "reset_keeps": (0, 202)}


def limits() -> F32:
    return np.stack([np.full(265, -0.8, np.float32), np.full(265, 0.9, np.float32)])


@dataclass(frozen=True)
class Scenario:
    items: tuple[int, ...]
    overlap: int
    emotion: Any = 4
    n_source: int = 1
    options: Mapping[str, Any] = field(default_factory=dict)
    limited: bool = False


OFFLINE = {
    "off_150": Scenario((150,), 10),
    "off_65": Scenario((65,), 10, [3, 4]),
    "off_240_video": Scenario((240,), 10, [[4], [3, 4], [6]], 7, {"smooth_width": 1, "reset_every": 2}),
    "off_150_clip_fix": Scenario((150,), 10, "array", 1, RESET, True),
}
ONLINE = {
    "on70": Scenario((5,) * 9 + (2,), 70, "array", 1, RESET, True),
    "on75": Scenario((5,) * 8, 75, 4, 1, RESET),
    "on70_nofix": Scenario((5,) * 10, 70, 4, 5),
    "on70_long": Scenario((5,) * 43, 70, "array", 1, RESET, True),
    "on10": Scenario((5,) * 32, 10),
}


def prepare(name: str, scenario: Scenario, online: bool) -> tuple[Condition, F32, WindowSettings]:
    prefix = f"a2m/{name}"
    emotion = FILL.uniform(f"{prefix}/emo", (600, 8), SALT) if scenario.emotion == "array" else scenario.emotion
    frames = range(scenario.n_source)
    condition = Condition(
        emotion_sequence(emotion),
        np.concatenate([FILL.uniform(f"{prefix}/eye_open/{i}", (1, 2), SALT, 0.2, 1.0) for i in frames]),
        np.concatenate([FILL.normal(f"{prefix}/eye_ball/{i}", (1, 6), SALT, 0.1) for i in frames]),
        FILL.normal(f"{prefix}/sc", (63,), SALT, 0.3),
    )
    bounds = limits() if scenario.limited else None
    settings = WindowSettings(scenario.overlap, online, limits=bounds, **scenario.options)
    return condition, to_vector(motion_info(f"{prefix}/x_s/0")), settings


class Recorder:
    """Counts and keeps the condition frames that a sampler was given."""

    def __init__(self, sample: Callable[[int, F32, F32], F32]) -> None:
        self.condition_frames: list[F32] = []
        self.condition_stats: list[list[float]] = []
        self._sample = sample

    def __call__(self, condition_frame: F32, conditions: F32) -> F32:
        assert conditions.shape == (80, 1103)
        self.condition_frames.append(condition_frame)
        of = conditions.astype(np.float64)
        self.condition_stats.append([of.mean(), of.std(), of.min(), of.max()])
        return self._sample(len(self.condition_frames) - 1, condition_frame, conditions)


def stub(name: str) -> Recorder:
    def sample(clip: int, condition_frame: F32, conditions: F32) -> F32:
        noise = FILL.normal(f"a2m/{name}/clip{clip}", (80, 265), SALT, 0.3)
        return (noise + 0.5 * condition_frame[None] + 0.1 * conditions[:, -265:]).astype(np.float32)

    return Recorder(sample)


def assert_stored(stored: Mapping[str, Any], name: str, what: str, made: F32, gate: float) -> None:
    assert made.shape == tuple(stored[f"{name}__{what}__shape"])
    stride = int(stored[f"{name}__{what}__stride"])
    np.testing.assert_allclose(made.reshape(-1)[::stride], stored[f"{name}__{what}"], atol=gate, err_msg=what)
    np.testing.assert_allclose(made.mean(axis=1), stored[f"{name}__{what}__frame_mean"], atol=gate)


def assert_scenario(
    stored: Mapping[str, Any], name: str, scenario: Scenario, sample: Recorder, motion: F32, gate: float
) -> None:
    """Everything that is stored of a run: what every window was given, what came out, which source frame each output belongs to."""
    settings = WindowSettings(scenario.overlap, name.startswith(("on", "net_on")))
    assert (settings.fuse_frames, settings.new_frames) == (
        stored[f"{name}__fuse_length"],
        stored[f"{name}__valid_clip_len"],
    )
    assert_stored(stored, name, "kp_conds", np.stack(sample.condition_frames), gate)
    np.testing.assert_allclose(sample.condition_stats, stored[f"{name}__aud_cond_stats"], atol=1e-5, rtol=1e-5)
    assert_stored(stored, name, "motion", motion, gate)
    shown = [mirror_index(i, scenario.n_source) for i in range(len(motion))]
    assert shown == stored[f"{name}__frame_idx"].tolist()


def features(name: str, frames: int) -> F32:
    return FILL.normal(f"a2m/{name}/feat", (frames, 1024), SALT, 0.5)


def run_online(name: str, scenario: Scenario, sample: Sampler) -> tuple[F32, list[int], OnlineMotion]:
    condition, source, settings = prepare(name, scenario, online=True)
    silence = FILL.normal(f"a2m/{name}/silence_feat", (scenario.overlap, 1024), SALT, 0.5)
    online = OnlineMotion(condition.rows(silence, -scenario.overlap), source, settings, sample)
    rows, done, emitted, counts = features(name, sum(scenario.items)), 0, [], []
    for count in scenario.items:
        emitted.append(online.feed(condition.rows(rows[done : done + count], done)))
        done += count
        counts.append(sum(map(len, emitted)))
    emitted.append(online.finish(condition.rows(np.repeat(rows[-1:], 80, axis=0), done)))
    return np.concatenate(emitted), counts, online


@pytest.mark.parametrize("name", list(OFFLINE))
def test_offline(name: str) -> None:
    stored, scenario, sample = golden("audio2motion_offline_stub"), OFFLINE[name], stub(name)
    condition, source, settings = prepare(name, scenario, online=False)
    rows = condition.rows(features(name, scenario.items[0]), 0)
    motion = offline_motion(rows, source, settings, sample)
    assert_scenario(stored, name, scenario, sample, motion, MAX_ERROR)


@pytest.mark.parametrize("name", list(ONLINE))
def test_online(name: str) -> None:
    stored, sample = golden("audio2motion_online_stub"), stub(name)
    motion, counts, online = run_online(name, ONLINE[name], sample)
    assert counts == stored[f"{name}__emitted_after_item"].tolist()
    assert_scenario(stored, name, ONLINE[name], sample, motion, MAX_ERROR)
    np.testing.assert_allclose(online.d0, stored[f"{name}__d0"], atol=MAX_ERROR)


def test_online_with_one_chunk_gives_nothing() -> None:
    motion, _, _ = run_online("on70_short", Scenario((5,), 70), stub("on70_short"))
    assert len(motion) == golden("audio2motion_online_stub")["on70_short__frames"] == 0


@pytest.fixture(scope="module")
def lmdm() -> Any:
    return filled("lmdm")


def network(lmdm: Any, name: str) -> Recorder:
    steps = ddim_steps(10)
    noise = torch.stack([normal(f"a2m/{name}/randn/{k}", (1, 80, 265)) for k in range(9)])
    times = torch.tensor([step.time for step in steps])

    def sample(clip: int, condition_frame: F32, conditions: F32) -> F32:
        with torch.inference_mode():
            cache = lmdm.encode_condition(
                torch.from_numpy(condition_frame)[None], torch.from_numpy(conditions)[None], times
            )
            x = normal(f"a2m/{name}/randn/{9 + clip}", (1, 80, 265))
            return ddim_sample(lambda x, i: lmdm.denoise(x, i, cache), x, noise, steps)[0].numpy()

    return Recorder(sample)


def test_offline_with_the_network(lmdm: Any) -> None:
    stored, sample = golden("audio2motion_offline_net"), network(lmdm, "net_off")
    scenario = Scenario((120,), 10)
    condition, source, settings = prepare("net_off", scenario, online=False)
    motion = offline_motion(condition.rows(features("net_off", 120), 0), source, settings, sample)
    assert_scenario(stored, "net_off", scenario, sample, motion, 5e-4)


def test_online_with_the_network(lmdm: Any) -> None:
    stored, sample = golden("audio2motion_online_net"), network(lmdm, "net_on")
    scenario = Scenario((5,) * 7, 70, 4, 1, RESET)
    motion, _, online = run_online("net_on", scenario, sample)
    assert_scenario(stored, "net_on", scenario, sample, motion, 5e-4)
    np.testing.assert_allclose(online.d0, stored["net_on__d0"], atol=5e-4)


def test_overlap_must_leave_new_frames() -> None:
    with pytest.raises(InvalidInputError, match="overlap"):
        WindowSettings(80, online=True)
