import numpy as np
import pytest
import torch

from engines.mini.rig import ACTION_INDEX, ACTIONS, actions_to_exp, mouth_gap
from training.alignment import closures, expected_opening, share_closed
from training.phones import PHONES, SILENCE, Phone
from training.visemes import Style, phones_to_actions


def chain(*parts: tuple[str, float]) -> list[Phone]:
    out, cursor = [], 0.0
    for symbol, length in parts:
        out.append(Phone(symbol, cursor, cursor + length))
        cursor += length
    return out


def gap(phones: list[Phone], fps: float = 25.0, style: object = None) -> np.ndarray:
    n = int(np.ceil(phones[-1].end_s * fps))
    actions = phones_to_actions(phones, n, fps, style)  # type: ignore[arg-type]
    return mouth_gap(actions_to_exp(torch.from_numpy(actions))).numpy()


def random_speech(seed: int, count: int = 60) -> list[Phone]:
    generator = np.random.default_rng(seed)
    parts = [(SILENCE, 0.4)]
    consonants = ["m", "b", "p", "t", "n", "s", "f", "w", "l", "k"]
    vowels = ["ɑ", "æ", "ɛ", "ə", "i", "u", "oʊ", "aɪ"]
    for i in range(count):
        parts.append((str(generator.choice(consonants if i % 2 else vowels)), float(generator.uniform(0.03, 0.16))))
        if generator.random() < 0.05:
            parts.append((SILENCE, float(generator.uniform(0.2, 0.6))))
    return chain(*parts, (SILENCE, 0.5))


@pytest.mark.parametrize("phase", np.linspace(0.0, 0.039, 9))
@pytest.mark.parametrize("symbol", ["m", "b", "p"])
@pytest.mark.parametrize("length", [0.02, 0.05, 0.12])
def test_every_bilabial_closes_at_25_fps_however_short_and_wherever_it_falls(
    symbol: str, length: float, phase: float
) -> None:
    phones = chain((SILENCE, 0.3), ("ɑ", 0.2 + phase), (symbol, length), ("æ", 0.2), (SILENCE, 0.3))
    hits, counted = share_closed(gap(phones), closures(phones), 25.0, 1e-4)
    assert (hits, counted) == (1, 1)


@pytest.mark.parametrize("seed", range(6))
def test_follows_the_expected_opening(seed: int) -> None:
    phones = random_speech(seed)
    measured = gap(phones)
    expected = expected_opening(phones, len(measured), 25.0)
    scores = {lag: np.corrcoef(np.roll(measured, -lag), expected)[0, 1] for lag in range(-3, 4)}
    assert scores[0] > 0.85
    assert max(scores, key=lambda lag: scores[lag]) == 0
    assert share_closed(measured, closures(phones), 25.0, 1e-4)[0] == len(closures(phones))


@pytest.mark.parametrize(
    ("symbol", "low", "high"), [("ɑ", 0.34, 0.42), ("ɛ", 0.19, 0.28), ("i", 0.10, 0.17), ("t", 0.06, 0.13)]
)
def test_long_sounds_reach_their_gap(symbol: str, low: float, high: float) -> None:
    measured = gap(chain((SILENCE, 0.3), (symbol, 0.5), (SILENCE, 0.3)))
    assert low <= measured.max() <= high


def test_pauses_close_exactly_and_lips_part_before_the_sound() -> None:
    phones = chain((SILENCE, 0.6), ("ɑ", 0.3), (SILENCE, 0.6), ("ɑ", 0.3), (SILENCE, 0.6))
    measured = gap(phones, 100.0)
    assert np.abs(measured[:50]).max() == 0.0
    assert measured[58] > 0.0  # 20 ms before the sound
    assert np.abs(measured[115:140]).max() < 1e-6  # 250 ms after it
    assert measured[-1] == 0.0


def test_a_bilabial_beside_a_pause_leaves_no_gap_between_the_two() -> None:
    phones = chain((SILENCE, 0.5), ("m", 0.08), ("ɑ", 0.2), ("m", 0.08), (SILENCE, 0.5))
    measured = gap(phones, 200.0)
    assert measured[:115].max() <= 1e-6
    assert measured[175:].max() <= 1e-6


def test_no_phones_is_a_closed_mouth_and_no_frames_is_empty() -> None:
    assert not phones_to_actions([], 10, 25.0).any()
    assert phones_to_actions(chain(("ɑ", 0.2)), 0, 25.0).shape == (0, len(ACTIONS))


def test_rounding_is_anticipated_and_consonants_take_it_from_their_neighbours() -> None:
    pucker = ACTION_INDEX["pucker"]
    round_ = phones_to_actions(chain((SILENCE, 0.3), ("s", 0.1), ("t", 0.08), ("u", 0.3), (SILENCE, 0.3)), 100, 100.0)
    spread = phones_to_actions(chain((SILENCE, 0.3), ("s", 0.1), ("t", 0.08), ("i", 0.3), (SILENCE, 0.3)), 100, 100.0)
    assert round_[44, pucker] > 0.3  # inside /t/
    assert spread[44, pucker] < 0.05
    assert spread[60, ACTION_INDEX["wide"]] > 0.6


def test_labiodentals_tuck_the_lip() -> None:
    tuck = phones_to_actions(chain((SILENCE, 0.3), ("ɑ", 0.2), ("f", 0.1), ("ɑ", 0.2), (SILENCE, 0.3)), 110, 100.0)
    column = tuck[:, ACTION_INDEX["lower_tuck"]]
    assert column[55] > 0.8
    assert column[35] == 0.0


def test_styles_differ_in_amplitude_and_keep_closures() -> None:
    phones = random_speech(3)
    quiet, loud = gap(phones, style=Style(amplitude=0.85)), gap(phones, style=Style(amplitude=1.15))
    assert loud.max() > 1.25 * quiet.max()
    for seed in range(4):
        drawn = gap(phones, style=np.random.default_rng(seed))
        assert share_closed(drawn, closures(phones), 25.0, 1e-4)[0] == len(closures(phones))


def test_every_phone_gives_finite_actions_in_range() -> None:
    actions = phones_to_actions(chain(*[(symbol, 0.08) for symbol in PHONES]), 120, 25.0)
    assert np.isfinite(actions).all()
    assert actions.min() >= 0.0
    assert actions.max() <= 1.1
