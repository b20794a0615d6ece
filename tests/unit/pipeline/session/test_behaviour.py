import numpy as np
import pytest

from engines.mini.motion_space import DEGREES_OF_FREEDOM
from engines.mini.rig import ACTION_INDEX
from training.behaviour import MAX_YAW_DEG, activity, beats, behave, loudness
from training.phones import SILENCE, Phone
from training.visemes import phones_to_actions

DOF = {name: i for i, name in enumerate(DEGREES_OF_FREEDOM)}


def speech(seconds: float = 12.0) -> tuple[np.ndarray, list[Phone], np.ndarray]:
    draw = np.random.default_rng(0)
    phones, cursor = [Phone(SILENCE, 0.0, 1.0)], 1.0
    pcm = np.zeros(int(seconds * 16000), np.float32)
    while cursor < seconds - 1.0:
        for symbol, length in (("t", 0.07), ("ɑ", 0.15), ("n", 0.06), ("i", 0.1)):
            phones.append(Phone(symbol, cursor, cursor + length))
            a, b = int(cursor * 16000), int((cursor + length) * 16000)
            level = 0.3 if symbol == "ɑ" and draw.random() < 0.3 else 0.05
            pcm[a:b] = level * np.sin(np.arange(b - a) * 0.1)
            cursor += length
        if draw.random() < 0.15:
            phones.append(Phone(SILENCE, cursor, cursor + 0.5))
            cursor += 0.5
    phones.append(Phone(SILENCE, cursor, seconds))
    return pcm, phones, phones_to_actions(phones, int(seconds * 25), 25.0)


def test_lips_pass_through_and_lids_follow_the_cue() -> None:
    pcm, phones, lips = speech()
    dofs, cue = behave(pcm, phones, lips, np.random.default_rng(1))
    assert dofs.shape == (300, len(DEGREES_OF_FREEDOM))
    assert dofs.dtype == cue.dtype == np.float32
    for name in ("jaw_open", "lips_part", "wide", "pucker", "press", "lower_tuck"):
        np.testing.assert_array_equal(dofs[:, DOF[name]], lips[:, ACTION_INDEX[name]])
    np.testing.assert_array_equal(dofs[:, DOF["blink_left"]], cue)
    assert cue.max() == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_pose_is_bounded_smooth_and_alive(seed: int) -> None:
    pcm, phones, lips = speech()
    dofs, _ = behave(pcm, phones, lips, np.random.default_rng(seed))
    angles = dofs[:, :3]
    assert np.abs(dofs[:, DOF["yaw"]]).max() < MAX_YAW_DEG
    assert np.abs(angles).max() < 5.0
    assert np.abs(np.diff(angles, axis=0)).max() < 0.9
    assert angles.std(0).min() > 0.1


def test_head_moves_more_while_speaking() -> None:
    pcm, phones, lips = speech()
    silent = [Phone(SILENCE, 0.0, 12.0)]
    still = [behave(np.zeros_like(pcm), silent, np.zeros_like(lips), np.random.default_rng(s))[0] for s in range(6)]
    lively = [behave(pcm, phones, lips, np.random.default_rng(s))[0] for s in range(6)]
    step = lambda runs: np.mean([np.abs(np.diff(run[:, DOF["pitch"]])).mean() for run in runs])  # noqa: E731
    assert step(lively) > 2.0 * step(still)


def test_beats_sit_on_loud_vowels() -> None:
    pcm, phones, _ = speech()
    level = loudness(pcm, 300)
    found = beats(phones, level, np.random.default_rng(0))
    assert found
    frames = [int(t * 25) for t, _ in found]
    assert all(level[f] > 1.1 * level[max(f - 15, 0) : f + 16].mean() for f in frames)
    assert np.diff([t for t, _ in found]).min() >= 0.45


def test_loudness_of_silence_is_zero_and_never_nan() -> None:
    assert not loudness(np.zeros(640 * 5, np.int16), 5).any()
    assert loudness(np.zeros(0, np.float32), 3).tolist() == [0.0, 0.0, 0.0]


def test_activity_bridges_short_pauses_only() -> None:
    phones = [Phone("ɑ", 1.0, 2.0), Phone(SILENCE, 2.0, 2.2), Phone("ɑ", 2.2, 3.0), Phone(SILENCE, 3.0, 5.0)]
    active = activity(phones, 125)
    assert active[53] == pytest.approx(1.0)
    assert active[100] == 0.0
