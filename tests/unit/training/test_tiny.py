"""The whole way from a corpus to evaluated weights, a few steps long, without any synthesiser."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import training.__main__ as command
from engines.mini.load import load_networks
from tests.support.paths import ROOT
from training.bank import build_bank, join_banks, streams_of
from training.corpus import Item, save_shard, to_item
from training.dataset import SegmentSampler
from training.evaluate import LabelledClip
from training.model_card import model_card
from training.phones import PHONE_INDEX, Phone
from training.utterance import Utterance

WORDS = ("sil", "m", "ɑ", "s", "i", "b", "oʊ", "sil")


def utterance(seed: int, voice: str) -> Utterance:
    """Noise bursts with labels: nothing to hear, enough to run on."""
    generator = np.random.default_rng(seed)
    lengths = generator.uniform(0.08, 0.3, len(WORDS))
    edges = np.concatenate([[0.0], np.cumsum(lengths)])
    phones = tuple(Phone(w, edges[i], edges[i + 1]) for i, w in enumerate(WORDS))
    audio = generator.standard_normal(int(edges[-1] * 16_000)).astype(np.float32) * 0.1
    for phone in phones:
        if phone.symbol in ("sil", "m", "b"):
            audio[int(phone.start_s * 16_000) : int(phone.end_s * 16_000)] *= 0.1
    return Utterance(audio, phones, voice, "text")


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return [to_item(utterance(seed, f"voice{seed % 2}")) for seed in range(40)]


@pytest.fixture()
def corpus(tmp_path: Path, items: list[Item]) -> Path:
    folder = tmp_path / "work" / "corpus"
    folder.mkdir(parents=True)
    save_shard(folder, "shard-00000", items)
    return folder


def test_labels_lie_where_the_sound_is(corpus: Path, items: list[Item]) -> None:
    bank = build_bank(corpus, workers=1)
    assert len(bank.audio) == bank.frames * 640 and len(bank.phones) == len(bank.lips) == 2 * bank.frames
    assert {len({item.voice for item in stream}) for stream in streams_of(items)} == {1}
    first = items[0]
    assert torch.equal(bank.audio[: len(first.audio)], torch.from_numpy(first.audio.copy()))
    assert bank.phones[: len(first.labels)].tolist() == first.labels.tolist()
    closed = (bank.phones == PHONE_INDEX["b"]) & (bank.phones.roll(1) == PHONE_INDEX["b"])
    jaw, lips = bank.lips[closed][:, 0].float(), bank.lips[closed][:, 1].float()
    assert float((0.38 * jaw + 0.18 * lips).median()) < 0.01


def test_banks_are_joined_in_the_share_wanted_and_streams_stay_apart(corpus: Path) -> None:
    bank = build_bank(corpus, workers=1)
    half = join_banks(bank, bank, 0.5)
    assert half.frames == 2 * bank.frames
    assert half.stream[bank.frames] == half.stream[bank.frames - 1] + 1
    assert (half.stream.diff() >= 0).all()
    assert torch.equal(half.audio[len(bank.audio) :], bank.audio)
    assert join_banks(bank, bank, 0.75).frames == 4 * bank.frames
    assert join_banks(bank, bank, 0.01).frames == 2 * bank.frames


def test_segments_are_cut_in_step(corpus: Path) -> None:
    bank = build_bank(corpus, workers=1)
    segments = SegmentSampler(bank, 20, 3200, 640, seed=1).draw(5)
    assert segments.pcm.shape == (5, 3200 + 20 * 640 + 640)
    again = SegmentSampler(bank, 20, 3200, 640, seed=1).draw(5)
    assert torch.equal(segments.pcm, again.pcm)
    core = (segments.pcm[0, 3200:-640] * 32768).short()
    windows = bank.audio.unfold(0, len(core), 640)
    frame = int((windows == core).all(1).nonzero()[0, 0])
    assert torch.equal(segments.phones[0], bank.phones[2 * frame : 2 * frame + 40].long())
    assert torch.equal(segments.dofs[0], bank.dofs[frame : frame + 20])


def test_from_corpus_to_card(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clips = [LabelledClip("test", u.audio, u.phones) for u in (utterance(90, "x"), utterance(91, "y"))]
    monkeypatch.setattr(command, "make_corpus", lambda *args, **kwargs: {})
    monkeypatch.setattr(command, "synthesisers", lambda **kwargs: None)
    monkeypatch.setattr(command, "heldout_clips", lambda count: clips)
    out, work = tmp_path / "out", tmp_path / "work"
    arguments = ["--tiny", "--device", "cpu", "--work", str(work), "--out", str(out)]
    assert command.main(["train", "--max-seconds", "0", *arguments]) == 3
    assert command.main(["all", *arguments]) == 0
    networks = load_networks(out)
    assert networks.lmdm.cond_dim == 2 * networks.encoder.row_dim + 1
    heads = command.load_heads(work, networks.encoder.row_dim)
    assert heads is not None and command.load_heads(tmp_path, networks.encoder.row_dim) is None
    report = json.loads((work / "report.json").read_text())
    assert set(report["evaluation"]) == {"rows", "clean", "gain_-30_db", "augmented", "silence", "motion"}
    assert "Held-out numbers" in (out / "MODEL_CARD.md").read_text()


def test_the_command_loads_where_nothing_but_torch_numpy_and_scipy_is() -> None:
    code = (
        "import sys\n"
        "for name in ('av', 'cv2', 'onnx', 'onnxruntime', 'pocketsphinx', 'ray', 'PIL'): sys.modules[name] = None\n"
        "import training.__main__"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_training_goes_on_from_weights(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        command, "heldout_clips", lambda count: [LabelledClip("test", u.audio, u.phones) for u in (utterance(90, "x"),)]
    )
    first, second = tmp_path / "first", tmp_path / "second"
    common = ["--tiny", "--device", "cpu", "--as-it-is", "--work", str(tmp_path / "work")]
    assert command.main(["train", *common, "--out", str(first)]) == 0
    start = load_networks(first)
    for part in ("encoder", "motion"):
        (tmp_path / "work" / part).rename(tmp_path / f"{part}-first")
    slow = ["--encoder-rate", "1e-9", "--motion-rate", "1e-9"]
    assert command.main(["train", *common, *slow, "--from", str(first), "--out", str(second)]) == 0
    again = load_networks(second)
    for old, new in ((start.encoder, again.encoder), (start.lmdm, again.lmdm), (start.space, again.space)):
        for name, value in old.state_dict().items():
            torch.testing.assert_close(new.state_dict()[name], value, atol=1e-6, rtol=0)
    report = json.loads((tmp_path / "work" / "report.json").read_text())
    assert report["recipe"]["started from"] == start.version


def test_the_card_names_who_spoke() -> None:
    for speech, neural in (("12.7 h", False), ("12.7 h and 1.50 h of the neural voice", True)):
        assert ("Kokoro" in model_card({"recipe": {"speech": speech}, "evaluation": {}})) == neural
