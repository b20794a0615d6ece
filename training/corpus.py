"""Build and read a corpus of labelled speech.

A shard is `<name>.npz` (int16 audio and 50 Hz label rows of many items, end to end, with offsets) and `<name>.json` (texts,
voices and phone lists). Shard k of seed s is a function of (s, k) alone, whatever the number of workers.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.connection
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import U8
from pipeline.types import FEATURE_RATE_HZ, SAMPLE_RATE_HZ
from training import phones as phone_module
from training import sentences, voices
from training.espeak import Espeak
from training.kokoro import Kokoro, model_file
from training.phones import SILENCE, Phone, rasterise, tidy
from training.synthesisers import Tools, locate
from training.utterance import SynthesisError, Utterance

SHARD_MINUTES: Final = 12.0
NEURAL_SHARD_MINUTES: Final = 1.0
"""The neural voice takes more than half as long as its speech lasts, on one core."""
LONG_PAUSE_SHARE: Final = 0.06
"""Share of the items that end in 2 to 5 s of silence, so that the networks know long pauses."""
SAMPLES_PER_ROW: Final = SAMPLE_RATE_HZ // FEATURE_RATE_HZ


@dataclass(frozen=True)
class Item:
    """An utterance of a corpus with its labels.

    Attributes:
        audio: int16 (n,), 16 kHz.
        labels: uint8 (ceil(n / 320),), phone index of every 20 ms row (the phone at the row's centre).
        phones: Canonical phones that tile the audio.
        voice: `engine:voice`.
        text: What was said.
    """

    audio: NDArray[np.int16]
    labels: U8
    phones: tuple[Phone, ...]
    voice: str
    text: str


def pad(utterance: Utterance, before_s: float, after_s: float) -> Utterance:
    """Add digital silence, and label it."""
    before, after = round(before_s * SAMPLE_RATE_HZ), round(after_s * SAMPLE_RATE_HZ)
    audio = np.concatenate([np.zeros(before, np.float32), utterance.audio, np.zeros(after, np.float32)])
    shift = before / SAMPLE_RATE_HZ
    moved = [Phone(p.symbol, p.start_s + shift, p.end_s + shift, p.stress) for p in utterance.phones]
    first = [Phone(SILENCE, 0.0, shift)] if before else []
    return Utterance(audio, tuple(tidy(first + moved, len(audio) / SAMPLE_RATE_HZ)), utterance.voice, utterance.text)


def to_item(utterance: Utterance) -> Item:
    """Quantise and rasterise; peaks are scaled to 0.3..0.9 only where int16 would clip."""
    peak = float(np.abs(utterance.audio).max(initial=0.0))
    scale = 0.9 / peak if peak > 0.98 else 1.0
    pcm = np.round(utterance.audio * (scale * 32767)).astype(np.int16)
    rows = -(-len(pcm) // SAMPLES_PER_ROW)
    return Item(
        pcm, rasterise(utterance.phones, rows, FEATURE_RATE_HZ), utterance.phones, utterance.voice, utterance.text
    )


def make_shard(
    tools: Tools, engine: Espeak, seed: int, index: int, minutes: float, kokoro: Kokoro | None = None
) -> tuple[list[Item], int]:
    """Synthesise one shard; texts a voice cannot say are left out.

    Args:
        tools: Synthesisers.
        engine: espeak-ng.
        seed: Seed of the corpus.
        index: Number of the shard.
        minutes: Length of the shard in minutes.
        kokoro: The neural voice, which then speaks everything; None leaves it to the others.

    Returns:
        The items, and how many texts failed.
    """
    generator = np.random.default_rng([seed, index])
    items: list[Item] = []
    remaining, failed = minutes * 60.0, 0
    while remaining > 0:
        speak = voices.draw_neural(kokoro, generator) if kokoro else voices.draw_speaker(tools, engine, generator)
        text = sentences.draw(generator, speak.language)
        before, after = generator.uniform(0.0, 0.5), generator.uniform(0.05, 0.9)
        if generator.random() < LONG_PAUSE_SHARE:
            after = generator.uniform(2.0, 5.0)
        try:
            spoken = speak.say(text)
        except SynthesisError:
            failed += 1
            if failed > 20 + len(items):
                raise
            continue
        items.append(to_item(pad(spoken, before, after)))
        remaining -= len(items[-1].audio) / SAMPLE_RATE_HZ
    return items, failed


def save_shard(folder: Path, name: str, items: list[Item]) -> None:
    """Write the two files of a shard; the json comes last and marks it complete."""
    np.savez(
        folder / f"{name}.npz",
        audio=np.concatenate([item.audio for item in items]),
        audio_offsets=np.cumsum([0] + [len(item.audio) for item in items]),
        labels=np.concatenate([item.labels for item in items]),
        label_offsets=np.cumsum([0] + [len(item.labels) for item in items]),
    )
    rows = [
        {
            "voice": i.voice,
            "text": i.text,
            "phones": [[p.symbol, round(p.start_s, 4), round(p.end_s, 4)] for p in i.phones],
        }
        for i in items
    ]
    partial = folder / f"{name}.json.part"
    partial.write_text(json.dumps({"phones": phone_module.PHONES, "items": rows}, ensure_ascii=False), encoding="utf-8")
    partial.rename(folder / f"{name}.json")


def load_shard(path: Path) -> list[Item]:
    """Read a shard by its `.json` or `.npz` path; audio and labels are views into one array."""
    meta: dict[str, Any] = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    if tuple(meta["phones"]) != phone_module.PHONES:
        raise SynthesisError(f"{path} was made with another phone inventory; build the corpus again")
    with np.load(path.with_suffix(".npz")) as data:
        audio, labels = data["audio"], data["labels"]
        audio_at, label_at = data["audio_offsets"], data["label_offsets"]
    return [
        Item(
            audio[audio_at[i] : audio_at[i + 1]],
            labels[label_at[i] : label_at[i + 1]],
            tuple(Phone(*row) for row in entry["phones"]),
            entry["voice"],
            entry["text"],
        )
        for i, entry in enumerate(meta["items"])
    ]


def load_corpus(folder: Path) -> Iterator[Item]:
    """All items of a folder, shard by shard, in the order of the names."""
    for path in sorted(folder.glob("shard-*.json")):
        yield from load_shard(path)


def heldout_utterances(tools: Tools) -> list[Utterance]:
    """The evaluation set: every held-out sentence once, the held-out voices in turn, 0.4 s of silence on both sides."""
    engine = Espeak(tools)
    return [
        pad(voices.speak(tools, engine, voices.HELDOUT[i % len(voices.HELDOUT)], text), 0.4, 0.4)
        for i, text in enumerate(sentences.heldout())
    ]


def make_corpus(
    folder: Path, hours: float, seed: int = 0, workers: int = 0, tools: Tools | None = None, neural: bool = False
) -> dict[str, Any]:
    """Synthesise a corpus, skipping shards that are there already.

    Args:
        folder: Folder that shards are written to.
        hours: Hours of audio, padding included.
        seed: Seed of everything but the padding of a last partial shard.
        workers: Number of processes; 0 means one per core.
        tools: Synthesisers; None finds them.
        neural: Whether the neural voice speaks, instead of the others.

    Returns:
        Counts: items, hours, failed texts, symbols no rule knew, seconds it took.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tools = tools or locate()
    count = max(1, round(hours * 60 / (NEURAL_SHARD_MINUTES if neural else SHARD_MINUTES)))
    minutes = hours * 60 / count
    if neural and tools.kokoro:
        model_file(tools.kokoro)  # once, before many processes want it
    missing_shards = [k for k in range(count) if not (folder / f"shard-{k:05d}.json").exists()]
    jobs = [(folder, tools, seed, k, minutes, neural) for k in missing_shards]
    began = time.perf_counter()
    items, seconds, failed, crashed = 0, 0.0, 0, 0
    missing: Counter[str] = Counter()
    for result in _run_jobs(jobs, workers or multiprocessing.cpu_count()):
        if result is None:
            crashed += 1
            continue
        made, length, lost, symbols = result
        items, seconds, failed = items + made, seconds + length, failed + lost
        missing.update(symbols)
    return {
        "items": items,
        "hours": round(seconds / 3600, 3),
        "failed": failed,
        "crashed_shards": crashed,
        "unknown_symbols": dict(missing),
        "took_s": round(time.perf_counter() - began, 1),
    }


Job = tuple[Path, Tools, int, int, float, bool]
JobResult = tuple[int, float, int, dict[str, int]]


def _run_jobs(jobs: Sequence[Job], workers: int) -> Iterator[JobResult | None]:
    """Results of all jobs as they end, one process per shard; None for a shard whose process died.

    The library can crash on some pairs of voice and text (seen: one shard in 120), which would hang a process pool for ever.
    """
    if workers == 1 or len(jobs) <= 1:
        yield from map(_job, jobs)
        return
    context = multiprocessing.get_context("spawn")
    waiting = list(reversed(jobs))
    running: dict[int, tuple[SpawnProcess, Connection]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_send_job, args=(waiting.pop(), sender))
                process.start()
                sender.close()
                running[process.sentinel] = (process, receiver)
            for sentinel in multiprocessing.connection.wait(list(running)):
                process, receiver = running.pop(cast(int, sentinel))
                process.join()
                yield receiver.recv() if process.exitcode == 0 else None
                receiver.close()
    finally:
        for process, _ in running.values():
            process.terminate()


def _send_job(job: Job, sender: Connection) -> None:
    """Run a job in a process of its own."""
    sender.send(_job(job))


_engines: dict[Path, Espeak] = {}


def _job(job: Job) -> JobResult:
    """Make one shard in a worker process, which keeps its library loaded."""
    folder, tools, seed, index, minutes, neural = job
    if tools.espeak_library not in _engines:
        _engines[tools.espeak_library] = Espeak(tools)
    engine = _engines[tools.espeak_library]
    phone_module.unknown.clear()
    items, failed = make_shard(tools, engine, seed, index, minutes, Kokoro(tools, engine) if neural else None)
    save_shard(folder, f"shard-{index:05d}", items)
    length = sum(len(item.audio) for item in items) / SAMPLE_RATE_HZ
    return len(items), length, failed, dict(phone_module.unknown)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--neural", action="store_true", help="the neural voice speaks, instead of the others")
    args = parser.parse_args()
    report = make_corpus(args.folder, args.hours, args.seed, args.workers, neural=args.neural)
    print(json.dumps(report, ensure_ascii=False))


if __name__ == "__main__":
    main()
