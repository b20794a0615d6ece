"""The run over HTTP: its document, its encoders, and the bound that is measured beside it. The run itself needs a cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.graph.gpu_service import shipped_document
from benchmarks.musetalk import http_file
from kernels.errors import LiveAnchorError
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.config import EncoderSettings
from pipeline.families import find_family
from pipeline.media.encoder import VideoFormat
from pipeline.media.mp4 import MemoryMp4Writer
from pipeline.types import Nv12Canvas
from serve_app.config.settings import AppConfig


def test_a_family_gets_its_stages_and_their_shares() -> None:
    shares = {}
    for family in ("ditto", "musetalk"):
        for gpus in (0.0, 1.0):
            document = shipped_document(family, None, 8000, gpus)
            [application] = document["applications"]
            found = {one["name"]: one["ray_actor_options"]["num_gpus"] for one in application["deployments"]}
            assert ("MotionDiffusion" in found) == (family == "ditto")
            assert sum(found.values()) == pytest.approx(sum(find_family(family).gpu_shares.values()) * gpus)
            shares[family, gpus] = found["Renderer"]
    assert shares["musetalk", 1.0] == 0.7 and shares["ditto", 1.0] == 0.4


def test_the_document_is_one_that_the_service_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_file, "probe_nvenc", lambda: "no card")
    kinds = http_file.variants()
    assert [one.case for one in kinds] == ["http_27s", "http_27s_crf18", "http_27s_veryfast_crf20"]
    for kind in kinds:
        document = http_file.document_of(Path("/weights"), 8000, 1.0, kind.encoder, hosts=4)
        replicas = {one["name"]: one["autoscaling_config"] for one in document["applications"][0]["deployments"]}
        assert [replicas[name]["max_replicas"] for name in ("SessionHost", "Renderer")] == [4, 1]
        arguments = document["applications"][0]["args"]
        config = AppConfig.model_validate(arguments)
        assert (
            config.session.file_credits == 16 and config.encoder.prefer == "x264" and config.models.family == "musetalk"
        )
    assert [kind.encoder["file_crf"] for kind in kinds] == [23, 18, 20]


def test_the_bound_is_the_encoder_over_all_pictures() -> None:
    encoder = {"prefer": "x264", "file_preset": "ultrafast", "file_crf": 23}
    rng = np.random.default_rng(0)
    with MemoryMp4Writer(VideoFormat(64, 96, 25), None, EncoderSettings.model_validate(encoder), frames=5) as writer:
        for _ in range(5):
            writer.write(Nv12Canvas(*rgb_to_nv12(rng.integers(0, 256, (96, 64, 3), np.uint8))))
        data = writer.finish()
    assert http_file.encoder_alone_s(data, encoder, 5) > 0
    with pytest.raises(LiveAnchorError, match="5 pictures, not 6"):
        http_file.encoder_alone_s(data, encoder, 6)


def test_who_does_not_answer_is_not_ready() -> None:
    assert not http_file.is_ready("http://127.0.0.1:9")
