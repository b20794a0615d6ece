import pytest

from benchmarks.quality.encode_speed import converting_encode_fps, encode_fps, nv12_psnr_db, synthetic_canvases
from kernels.errors import InvalidInputError
from pipeline.config import EncoderSettings
from tests.support.media_samples import moving_canvas

SETTINGS = EncoderSettings(prefer="x264")


@pytest.mark.parametrize("measure", [encode_fps, converting_encode_fps])
@pytest.mark.parametrize("purpose", ["file", "live"])
def test_a_rate_per_run_comes_back(measure, purpose):
    rates = measure([moving_canvas(i) for i in range(12)], purpose, SETTINGS, repeats=2)
    assert len(rates) == 2 and all(rate > 1 for rate in rates)


def test_quality_is_pooled_over_pictures_and_follows_the_quantiser():
    canvases = synthetic_canvases(12, 144, 256)
    fine = nv12_psnr_db(canvases, SETTINGS)
    coarse = nv12_psnr_db(canvases, EncoderSettings(prefer="x264", file_crf=32))
    assert len(fine.per_picture_db) == 12
    assert min(fine.per_picture_db) <= fine.psnr_db <= max(fine.per_picture_db)
    assert fine.psnr_db > coarse.psnr_db + 5 and fine.kbps > coarse.kbps


def test_one_picture_is_not_a_measurement():
    for measure in (lambda c: encode_fps(c, "file", SETTINGS), lambda c: nv12_psnr_db(c, SETTINGS)):
        with pytest.raises(InvalidInputError, match="canvases"):
            measure([moving_canvas(0)])
