import numpy as np
import pytest

from kernels.errors import InvalidInputError, ShapeError
from pipeline.media.resample import StreamingResampler, resample


@pytest.mark.parametrize("rate_hz", [8_000, 22_050, 44_100, 48_000, 192_000])
@pytest.mark.parametrize("n", [1, 2, 10, 1_000, 7_777])
@pytest.mark.parametrize("channels", [1, 2])
def test_the_count_is_exact_and_pieces_do_not_matter(rate_hz, n, channels):
    samples = np.random.default_rng(0).uniform(-0.5, 0.5, (n, channels)).astype(np.float32)
    stream = StreamingResampler(16_000, channels)
    pieces = [stream.push(samples[i : i + 441], rate_hz) for i in range(0, n, 441)]
    streamed = np.concatenate([*pieces, stream.flush()])
    assert len(streamed) == -(-n * 16_000 // rate_hz)
    np.testing.assert_array_equal(streamed, resample(samples, rate_hz, 16_000))


def test_a_sine_keeps_level_and_phase():
    at = lambda rate: np.sin(2 * np.pi * 1_000 * np.arange(rate) / rate).astype(np.float32)[:, None]  # noqa: E731
    np.testing.assert_allclose(resample(at(48_000), 48_000, 16_000)[50:-50], at(16_000)[50:-50], atol=1e-4)


def test_the_target_rate_passes_through_untouched():
    samples = np.random.default_rng(1).uniform(-1, 1, (500, 2)).astype(np.float32)
    np.testing.assert_array_equal(resample(samples, 16_000, 16_000), samples)


def test_a_change_of_rate_starts_a_new_run():
    stream = StreamingResampler(16_000)
    blocks = [
        (np.full(441, 0.5, np.float32), 44_100),
        (np.full(160, 0.5, np.float32), 16_000),
        (np.full(480, 0.5, np.float32), 48_000),
    ]
    out = np.concatenate([*(stream.push(block, rate) for block, rate in blocks), stream.flush()])
    assert len(out) == 480


def test_it_can_be_used_again_after_a_flush():
    stream = StreamingResampler(16_000)
    samples = np.random.default_rng(2).uniform(-1, 1, 4_410).astype(np.float32)
    first = np.concatenate([stream.push(samples, 44_100), stream.flush()])
    second = np.concatenate([stream.push(samples, 44_100), stream.flush()])
    np.testing.assert_array_equal(first, second)
    assert len(stream.flush()) == 0


def test_bad_arguments_are_refused():
    with pytest.raises(InvalidInputError):
        StreamingResampler(7_999)
    with pytest.raises(InvalidInputError):
        StreamingResampler(16_000, 3)
    with pytest.raises(InvalidInputError):
        StreamingResampler(16_000).push(np.zeros(4, np.float32), 200_000)
    with pytest.raises(ShapeError):
        StreamingResampler(16_000, 2).push(np.zeros((4, 1), np.float32), 16_000)
    with pytest.raises(ShapeError):
        StreamingResampler(16_000).push(np.zeros(4, np.float64), 16_000)
    with pytest.raises(ShapeError):
        resample(np.zeros(4, np.float32), 16_000, 8_000)
