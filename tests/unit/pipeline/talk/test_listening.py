"""When a person speaks and when they have finished: real speech, noise, echo, holes. Time is counted in samples."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.live.contracts import MICROPHONE_RATE_HZ, VoiceTick
from pipeline.media.audio_in import decode_audio
from pipeline.media.resample import resample
from pipeline.talk.activity import FRAME, FRAME_S, VoiceActivity
from pipeline.talk.echo_guard import COUPLING_DB, FIRST_DB, EchoGuard
from pipeline.talk.listener import Listener
from pipeline.talk.settings import AgentSettings
from pipeline.talk.turns import AFTER_S, BEFORE_S, TurnBegan, TurnEnded, TurnTaking
from tests.support.live import tone

SPEECH = Path(__file__).parents[4] / "docs" / "demo" / "speech.wav"
RATE = 16_000
SETTINGS = AgentSettings()


@cache
def speech() -> F32:
    """Three seconds of a sentence, at the level that browsers bring a voice to."""
    pcm = decode_audio(SPEECH).pcm[int(0.38 * RATE) :][: 3 * RATE]
    return (pcm * (0.1 / np.sqrt(np.mean(np.square(pcm))))).astype(np.float32)


def silence(seconds: float) -> F32:
    return np.zeros(round(seconds * RATE), np.float32)


def noise(seconds: float, rms: float, brown: bool = False) -> F32:
    drawn = np.random.default_rng(7).normal(size=round(seconds * RATE))
    if brown:  # 6 dB an octave down from 100 Hz on
        spectrum = np.fft.rfft(drawn)
        drawn = np.fft.irfft(spectrum / np.maximum(np.linspace(0, 80, len(spectrum)), 1), len(drawn))
    return (drawn * (rms / np.sqrt(np.mean(np.square(drawn))))).astype(np.float32)


def voiced(pcm: F32) -> np.ndarray:
    activity = VoiceActivity()
    return np.array([activity.hear(pcm[at : at + FRAME]) for at in range(0, len(pcm) - FRAME + 1, FRAME)])


def turns(pcm: F32, settings: AgentSettings = SETTINGS, listener: Listener | None = None) -> list[tuple[float, object]]:
    """Each event with the second of `pcm` at which it came; the sound arrives as Opus does, 20 ms at a time."""
    listener = listener or Listener(settings)
    high = resample(pcm[:, None], RATE, MICROPHONE_RATE_HZ)[:, 0]
    found = []
    for place in range(0, len(high), 960):
        for event in listener.hear(high[place : place + 960], place):
            found.append(((place + 960) / MICROPHONE_RATE_HZ, event))
    return found


def test_a_sentence_is_one_turn_whose_sound_is_whole() -> None:
    (began_s, began), (ended_s, ended) = turns(np.concatenate([silence(1), speech(), silence(2)]))
    assert isinstance(began, TurnBegan) and isinstance(ended, TurnEnded)
    assert 1.0 + SETTINGS.least_speech_s <= began_s <= 1.45
    assert 4.3 <= ended_s <= 4.7, "its last sound dies away 0.2 s before the end"
    assert len(ended.pcm) / RATE == pytest.approx(3.0 + BEFORE_S + AFTER_S, abs=0.3)
    kept = np.convolve(np.square(ended.pcm), np.ones(160), "same").max()
    assert kept == pytest.approx(np.convolve(np.square(speech()), np.ones(160), "same").max(), rel=0.05)


@pytest.mark.parametrize("snr_db", [30, 20, 10])
def test_speech_is_found_in_noise_and_noise_alone_is_none(snr_db: float) -> None:
    hiss = noise(7, 0.1 * 10 ** (-snr_db / 20))
    found = turns(np.concatenate([silence(2), speech(), silence(2)]) + hiss)
    assert [type(event) for _, event in found] == [TurnBegan, TurnEnded]
    assert 2.2 <= found[0][0] <= 2.7


@pytest.mark.parametrize("gain", [0.1, 3.0])
def test_a_quiet_and_a_loud_voice_are_heard(gain: float) -> None:
    found = turns(np.clip(np.concatenate([silence(1), speech() * gain, silence(1)]), -1, 1).astype(np.float32))
    assert [type(event) for _, event in found] == [TurnBegan, TurnEnded]


@pytest.mark.parametrize("sound", ["white", "brown", "clicks", "keys"])
def test_what_is_no_voice_begins_no_turn(sound: str) -> None:
    rng = np.random.default_rng(3)
    burst = np.zeros(4 * RATE, np.float32)
    if sound in ("white", "brown"):
        burst = noise(4, 0.1, brown=sound == "brown")
    else:
        for at in range(0, len(burst) - 400, 4000):
            burst[at : at + 400] = (
                0.3 * rng.normal(size=400) * np.exp(-np.arange(400) / (2 if sound == "clicks" else 80))
            )
    assert turns(np.concatenate([silence(1), burst, silence(1)])) == []


def test_noise_that_goes_on_becomes_the_noise() -> None:
    hum = (0.05 * np.sin(2 * np.pi * 200 * np.arange(8 * RATE) / RATE)).astype(np.float32)
    heard = voiced(np.concatenate([silence(1), hum]))
    assert heard[60:100].all() and not heard[-150:].any(), "after 3.2 s it is what the room sounds like"


def test_a_cough_is_no_turn_and_a_short_pause_ends_none() -> None:
    cough = speech()[: int(0.16 * RATE)]
    assert turns(np.concatenate([silence(1), cough, silence(2)])) == []
    gap = silence(SETTINGS.pause_s - 0.25)
    found = turns(np.concatenate([silence(1), speech(), gap, speech(), silence(1)]))
    assert [type(event) for _, event in found] == [TurnBegan, TurnEnded]
    assert isinstance(found[1][1], TurnEnded) and len(found[1][1].pcm) > 6 * RATE


def test_the_longest_turn_ends_by_itself_and_the_next_one_goes_on() -> None:
    settings = AgentSettings(longest_turn_s=2)
    found = [event for _, event in turns(np.concatenate([silence(1), *[speech()] * 2, silence(1)]), settings)]
    ended = [event for event in found if isinstance(event, TurnEnded)]
    assert len(ended) >= 2 and all(len(one.pcm) <= 2 * RATE + FRAME for one in ended)


def test_turns_count_frames_with_a_voice_against_those_without() -> None:
    taking, frame = TurnTaking(AgentSettings(least_speech_s=0.1)), silence(FRAME_S)
    flicker = [True, False] * 40
    assert not any(taking.hear(frame, one) for one in flicker)
    events = [taking.hear(frame, True) for _ in range(5)]
    assert isinstance(events[-1], TurnBegan) and not any(events[:-1]) and taking.speaking


def test_a_microphone_that_is_cut_off_ends_the_turn() -> None:
    listener = Listener(SETTINGS)
    began = turns(speech(), listener=listener)
    assert [type(event) for _, event in began] == [TurnBegan]
    [ended] = listener.hear(np.zeros(0, np.float32), 3 * MICROPHONE_RATE_HZ + 50_000)
    assert isinstance(ended, TurnEnded)


def test_samples_that_are_no_numbers_do_no_harm() -> None:
    listener = Listener(SETTINGS)
    assert list(listener.hear(np.full(9600, np.nan, np.float32), 0)) == []
    after = turns(np.concatenate([speech(), silence(1)]), listener=listener)
    assert [type(event) for _, event in after] == [TurnBegan, TurnEnded]


class Room:
    """A presenter, a loudspeaker and a microphone: what the presenter says comes back weaker and later."""

    def __init__(self, echo_db: float, delay_s: float = 0.24) -> None:
        self.listener = Listener(SETTINGS)
        self._gain, self._delay = 10 ** (echo_db / 20), round(delay_s * RATE)
        self._place = 0

    def hear(self, presenter: F32, person: F32) -> list[tuple[float, object]]:
        """Both speak at the same time; the events, by second."""
        late = np.concatenate([np.zeros(self._delay, np.float32), presenter])[: len(presenter)]
        at_microphone = (person[: len(late)] + self._gain * late).astype(np.float32)
        high = resample(at_microphone[:, None], RATE, MICROPHONE_RATE_HZ)[:, 0]
        found = []
        for tick, start in enumerate(range(0, len(presenter) - 639, 640)):
            pcm = presenter[start : start + 640]
            self.listener.played(VoiceTick(pcm, self._place // 3, bool(pcm.any())))
            for event in self.listener.hear(high[3 * start : 3 * (start + 640)], self._place):
                found.append(((tick + 1) * 0.04, event))
            self._place += 1920
        return found


def presenter_says(seconds: float) -> F32:
    pcm = decode_audio(SPEECH).pcm
    return np.tile(pcm, -(-round(seconds * RATE) // len(pcm)))[: round(seconds * RATE)].astype(np.float32)


@pytest.mark.parametrize("echo_db", [-10, -20, -40])
def test_the_presenter_s_own_voice_interrupts_nothing(echo_db: float) -> None:
    """-10 dB is a loudspeaker beside a microphone without any cancellation; browsers leave -30 dB and less."""
    room = Room(echo_db)
    assert room.hear(presenter_says(12), silence(12)) == []


def test_a_person_who_speaks_over_the_presenter_is_heard_soon() -> None:
    room = Room(-30)
    person = np.concatenate([silence(4), speech(), silence(2)])
    found = room.hear(presenter_says(9), person)
    assert isinstance(found[0][1], TurnBegan) and 4.2 <= found[0][0] <= 4.6, found


def test_what_comes_back_is_learnt_while_the_presenter_speaks() -> None:
    guard, frame = EchoGuard(), np.full(FRAME, 0.002, np.float32)
    assert guard.least_rms == 0.0 and guard.coupling_db == FIRST_DB
    guard.heard(frame)
    assert guard.coupling_db == FIRST_DB, "nothing is learnt in silence"
    for tick in range(1000):
        guard.played(VoiceTick(np.full(640, 0.2, np.float32), 640 * tick, True))
        guard.heard(frame)
        guard.heard(frame)
    assert guard.coupling_db == pytest.approx(-40, abs=0.5)
    assert guard.least_rms == pytest.approx(0.002 * 10 ** (10 / 20), rel=0.1)
    guard.played(VoiceTick(np.zeros(640, np.float32), 640 * 1100, False))
    assert guard.least_rms == 0.0, "the presenter has been silent for longer than an echo takes"
    assert COUPLING_DB[0] < guard.coupling_db < COUPLING_DB[1]


def test_a_tone_is_no_more_than_its_level_says() -> None:
    loud, quiet, frame = VoiceActivity(), VoiceActivity(), tone(FRAME_S)
    assert [loud.hear(frame) for _ in range(4)] == [False, False, True, True]
    assert not any(quiet.hear(frame, least_rms=0.5) for _ in range(4))
