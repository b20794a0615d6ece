"""A checkpoint folder in the full public layout: imported, verified, and run from samples to pictures."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import wavfile
from typer.testing import CliRunner

from benchmarks.ditto.checkpoint_folder import write_folder
from engines.ditto.checkpoints import HUBERT_FILE, NETWORK_FILES
from engines.ditto.config import load_config
from engines.ditto.hubert.onnx import Hubert
from engines.ditto.motion_sampler import MotionSampler
from engines.ditto.weights import CHECKPOINTS
from engines.runtimes.torch import TorchRuntime
from engines.weights.home import FACE_DIR_ENV, HOME_ENV, weights_dir
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.avatars.store import AvatarStore
from pipeline.config import SessionSettings
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.load import (
    load_audio_features,
    load_lmdm,
    load_motion_modes,
    load_silence_rows,
    load_source_models,
)
from pipeline.ditto.registration import make_avatar
from pipeline.ditto.stages import load_stages
from pipeline.session.clip_motion import clip_motion, clip_start
from pipeline.session.frames import clip_batches
from pipeline.stage_meter import StageMeter
from pipeline.types import Avatar, FeatureRows, Nv12RectBatch
from serve_app.cli.app import app
from tests.support.ditto_avatar import drawn_face
from tests.support.faces import face_weights, presenter
from tests.support.whole_clip import WholeClipMotion

STEPS = 2


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Somebody's own copy of the public repository; 0.7 GB, so it goes when the module is done."""
    folder = tmp_path_factory.mktemp("checkpoints")
    write_folder(folder, STEPS)
    (folder / "README.md").write_text("not part of the weights")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def home(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder into which the command line has imported them."""
    where = tmp_path_factory.mktemp("home")
    done = CliRunner().invoke(app, ["weights", "import", str(source)], env={HOME_ENV: str(where)})
    assert done.exit_code == 0, done.output
    yield where
    shutil.rmtree(where, ignore_errors=True)


@pytest.fixture(scope="module")
def avatar(home: Path) -> Avatar:
    """The drawn presenter, registered with the imported extractors and read back from the store."""
    canvas, face = drawn_face()
    models = load_source_models(weights_dir("ditto", home))
    return AvatarStore(home / "avatars").put(make_avatar([canvas], [face], models, "drawn"))


def verify(home: Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["weights", "verify"], env={HOME_ENV: str(home)})
    return done.exit_code, done.output


def test_import_takes_the_weights_and_nothing_else(home: Path) -> None:
    folder = weights_dir("ditto", home)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert {*NETWORK_FILES.values(), HUBERT_FILE, "record.json"} <= files and "README.md" not in files


def test_verify_is_content_with_a_whole_folder_and_names_a_bad_file(home: Path) -> None:
    code, output = verify(home)
    assert code == 0 and "ditto: ready" in output
    victim = weights_dir("ditto", home) / NETWORK_FILES["stitch_network"]
    data = victim.read_bytes()
    victim.write_bytes(data[:-100])
    code, output = verify(home)
    victim.write_bytes(data)
    assert code == 1 and "stitch_network.pth is truncated" in output


@pytest.mark.parametrize("file", [HUBERT_FILE, NETWORK_FILES["stitch_network"]])
def test_import_refuses_a_folder_with_a_missing_file(source: Path, tmp_path: Path, file: str) -> None:
    aside = source / f"{file}.aside"
    (source / file).rename(aside)
    try:
        done = CliRunner().invoke(app, ["weights", "import", str(source)], env={HOME_ENV: str(tmp_path)})
    finally:
        aside.rename(source / file)
    assert isinstance(done.exception, InvalidInputError), "bad input: exit code 2"
    assert Path(file).name in str(done.exception) and "\n" not in str(done.exception)
    assert not weights_dir("ditto", tmp_path).exists()


def test_registration_reads_the_face(avatar: Avatar) -> None:
    tensors = unpack(avatar)
    volumes = tensors.volumes.astype(np.float32)
    assert np.isfinite(volumes).all() and volumes.std() > 0.1
    assert np.isfinite(tensors.motion).all()


def test_silence_is_encoded_once(home: Path, tmp_path: Path) -> None:
    folder = weights_dir("ditto", home)
    rows = load_silence_rows(folder)
    assert rows.shape == (5, 1024)
    kept = list((folder / "converted").glob("silence-*.safetensors"))
    assert len(kept) == 1
    hubert = (folder / HUBERT_FILE).rename(tmp_path / "aside.onnx")
    try:
        np.testing.assert_array_equal(load_silence_rows(folder), rows)
    finally:
        hubert.rename(folder / HUBERT_FILE)
    kept[0].write_bytes(b"damaged")
    np.testing.assert_array_equal(load_silence_rows(folder), rows)


def test_the_command_line_registers_for_the_family(home: Path, tmp_path: Path) -> None:
    face_weights()
    portrait = tmp_path / "portrait.png"
    Image.fromarray(presenter().rgb).save(portrait)
    command = ["avatar", "register", str(portrait), "--family", "ditto"]
    done = CliRunner().invoke(app, command, env={HOME_ENV: str(home), FACE_DIR_ENV: str(face_weights())})
    assert done.exit_code == 0, done.output
    kept = AvatarStore(home / "avatars").get(done.output.strip().splitlines()[-1])
    assert kept.family == "ditto" and kept.name == "portrait" and unpack(kept).is_image


def test_online_from_samples_to_pictures(home: Path, avatar: Avatar) -> None:
    threads = torch.get_num_threads()
    pcm = (0.3 * np.sin(np.arange(640) * 0.05)).astype(np.float32)

    async def run() -> tuple[dict[str, int], list[Nv12RectBatch]]:
        stages = load_stages(AvatarStore(home / "avatars").get, weights_dir("ditto", home))
        try:
            meter = StageMeter(stages)
            batches = clip_batches(pcm, avatar, meter, SessionSettings(file_motion="low_latency"), 1)
            made = [batch async for batch in batches]
        finally:
            stages.close()
        return dict(meter.calls), made

    try:
        calls, batches = asyncio.run(run())
    finally:
        torch.set_num_threads(threads)
    assert calls == {"audio_features": 1, "motion_diffusion": 2, "renderer": 1}
    assert sum(map(len, batches)) == 1
    luma = np.concatenate([batch.y_planes for batch in batches])
    assert luma.shape[1:] == (avatar.rect.h, avatar.rect.w) and luma.std() > 5


def test_offline_motion_of_the_stages_is_the_whole_clip_s(home: Path, avatar: Avatar) -> None:
    folder = weights_dir("ditto", home)
    config = load_config(folder, "offline")
    assert config.sampling_timesteps == STEPS
    tensors = unpack(avatar)
    whole = WholeClipMotion(
        Hubert(folder).encode_all,
        TorchRuntime(MotionSampler(load_lmdm(folder), STEPS)),
        STEPS,
        config,
        tensors.blink_gaps,
    )
    pcm = (0.3 * np.sin(np.arange(640 * 85) * 0.05)).astype(np.float32)
    expected = whole.offline(pcm, tensors.speaker, 1)
    assert expected.shape == (85, 265) and np.isfinite(expected).all() and np.abs(expected[1:]).max() > 0
    audio, motion = load_audio_features(folder), load_motion_modes(folder)

    class Stages:
        async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
            return audio.window(window, first_row)

        async def motion_diffusion(self, rows: FeatureRows, carry: Any) -> Any:
            return motion.step(rows, carry)

    async def run() -> F32:
        start = clip_start(avatar, 1, len(pcm), "auto")
        assert start is not None
        stages: Any = Stages()
        return np.concatenate([chunk.motion async for chunk in clip_motion(pcm, stages, start)])

    error = np.abs(asyncio.run(run()) - expected).max()
    assert error <= 1e-5 * np.abs(expected).max(), error


def test_generate_local_speaks_with_the_family(home: Path, avatar: Avatar, tmp_path: Path) -> None:
    speech, out, threads = tmp_path / "speech.wav", tmp_path / "talk.mp4", torch.get_num_threads()
    wavfile.write(speech, 16_000, (9000 * np.sin(np.arange(640) * 0.05)).astype(np.int16))
    command = ["generate", "--local", "--audio", str(speech), "--avatar", avatar.avatar_id, "--out", str(out)]
    try:
        done = CliRunner().invoke(app, command, env={HOME_ENV: str(home)})
    finally:
        torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    with av.open(str(out)) as container:
        [frame] = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert frame.shape == avatar.canvas_rgb.shape and frame.std() > 10


def test_the_content_check_loads_every_network(home: Path) -> None:
    CHECKPOINTS.check(weights_dir("ditto", home))
