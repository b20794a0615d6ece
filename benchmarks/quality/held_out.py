"""Held-out sentences of held-out voices, with phoneme timings, as the lip-sync measures want them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from benchmarks.quality.speaking import Sentence
from engines.mini.rig import actions_to_exp
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.clock import motion_frame_count
from pipeline.types import MOTION_FPS
from training.alignment import expected_opening
from training.corpus import heldout_utterances
from training.lip_sync import Span
from training.phones import BILABIALS, Phone
from training.synthesisers import locate
from training.visemes import phones_to_actions


def labelled_sentence(name: str, pcm: F32, phones: Sequence[Phone]) -> Sentence:
    """Bring one labelled utterance into the form of the measures.

    Args:
        name: Name of the sentence in error messages.
        pcm: float32 (n,), 16 kHz.
        phones: Phones that tile it.
    """
    frames = motion_frame_count(len(pcm))
    actions = torch.from_numpy(phones_to_actions(phones, frames, MOTION_FPS))
    return Sentence(
        name=name,
        pcm=pcm,
        expected=expected_opening(phones, frames, MOTION_FPS),
        closures=tuple(Span(phone.start_s, phone.end_s) for phone in phones if phone.symbol in BILABIALS),
        label_exp=actions_to_exp(actions).flatten(1).numpy(),
    )


def held_out_sentences(count: int) -> list[Sentence]:
    """The first `count` held-out sentences; voices take turns.

    Raises:
        InvalidInputError: There are not that many.
        SynthesisError: No synthesisers on this machine.
    """
    utterances = heldout_utterances(locate())
    if not 2 <= count <= len(utterances):
        raise InvalidInputError("sentences", str(count), f"2 to {len(utterances)}")
    return [
        labelled_sentence(f"{spoken.voice} #{index}", spoken.audio, spoken.phones)
        for index, spoken in enumerate(utterances[:count])
    ]
