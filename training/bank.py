"""From a corpus folder to a `SpeechBank`: streams of one voice, lip curves from the phones, head motion and blinks on top."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Final

import numpy as np
import torch

from pipeline.types import MOTION_FPS, ROWS_PER_FRAME, SAMPLES_PER_FRAME
from training.behaviour import behave
from training.corpus import Item, load_shard
from training.dataset import LIP_COLUMNS, SpeechBank
from training.phones import Phone
from training.visemes import phones_to_actions

STREAM_FRAMES: Final = 1500
"""Frames after which a stream ends, with the utterance that reaches them."""

_NAMES: Final = tuple(field.name for field in fields(SpeechBank))


def streams_of(items: Sequence[Item]) -> list[list[Item]]:
    """Group items by voice, in order, into streams of about a minute."""
    by_voice: dict[str, list[Item]] = {}
    for item in items:
        by_voice.setdefault(item.voice, []).append(item)
    streams: list[list[Item]] = []
    for group in by_voice.values():
        frames = STREAM_FRAMES
        for item in group:
            if frames >= STREAM_FRAMES:
                streams.append([])
                frames = 0
            streams[-1].append(item)
            frames += -(-len(item.audio) // SAMPLES_PER_FRAME)
    return streams


def stream_arrays(items: Sequence[Item], number: int, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Arrays of one stream, by the field names of `SpeechBank`."""
    audio: list[np.ndarray] = []
    labels: list[np.ndarray] = []
    lips: list[np.ndarray] = []
    phones: list[Phone] = []
    offset = 0
    for item in items:
        frames = -(-len(item.audio) // SAMPLES_PER_FRAME)
        rows = frames * ROWS_PER_FRAME
        audio.append(np.pad(item.audio, (0, frames * SAMPLES_PER_FRAME - len(item.audio))))
        labels.append(np.pad(item.labels, (0, rows - len(item.labels))))
        lips.append(phones_to_actions(item.phones, rows, MOTION_FPS * ROWS_PER_FRAME))
        shift = offset / MOTION_FPS
        phones.extend(Phone(p.symbol, p.start_s + shift, p.end_s + shift, p.stress) for p in item.phones)
        offset += frames
    pcm = np.concatenate(audio)
    actions = np.concatenate(lips)
    dofs, cue = behave(pcm, phones, actions[::ROWS_PER_FRAME], generator)
    return {
        "audio": pcm,
        "phones": np.concatenate(labels),
        "lips": actions[:, LIP_COLUMNS].astype(np.float16),
        "dofs": dofs,
        "cue": cue,
        "stream": np.full(offset, number, np.int32),
    }


def shard_arrays(job: tuple[Path, int, int]) -> dict[str, np.ndarray]:
    """Arrays of one shard; job = (path, seed, number of the shard)."""
    path, seed, index = job
    generator = np.random.default_rng([seed, index])
    parts = [stream_arrays(items, index * 1000 + k, generator) for k, items in enumerate(streams_of(load_shard(path)))]
    return {name: np.concatenate([part[name] for part in parts]) for name in _NAMES}


def build_bank(folder: Path, seed: int = 0, workers: int = 0) -> SpeechBank:
    """Label all shards of a corpus folder, in parallel, and lay them end to end.

    Args:
        folder: Corpus folder, made by `training.corpus`.
        seed: Seed of head motion and blinks.
        workers: Number of processes; 0 means one per core.
    """
    jobs = [(path, seed, k) for k, path in enumerate(sorted(folder.glob("shard-*.json")))]
    if not jobs:
        raise FileNotFoundError(f"no shards in {folder}")
    count = min(workers or multiprocessing.cpu_count(), len(jobs))
    if count == 1:
        parts = [shard_arrays(job) for job in jobs]
    else:
        with multiprocessing.get_context("spawn").Pool(count) as pool:
            parts = pool.map(shard_arrays, jobs, chunksize=1)
    return SpeechBank(**{name: torch.from_numpy(np.concatenate([part[name] for part in parts])) for name in _NAMES})


def join_banks(base: SpeechBank, extra: SpeechBank, share: float) -> SpeechBank:
    """Lay `extra` behind `base` as often as it takes to be about `share` of the whole.

    Args:
        base: The bank that is extended.
        extra: The bank that is added; it is on the same device.
        share: Share of the whole, 0..1 exclusive; at least one copy is laid.
    """
    copies = max(round(base.frames * share / (1.0 - share) / extra.frames), 1)
    parts = [base, *[extra] * copies]
    joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in _NAMES if name != "stream"}
    streams, first = [], 0
    for part in parts:
        streams.append(part.stream - part.stream.min() + first)
        first = int(streams[-1].max()) + 1
    return SpeechBank(**joined, stream=torch.cat(streams))
