"""How far rows of the sliding buffer lie from rows of the whole file: `python -m benchmarks.musetalk.streaming_rows --audio FILE`.

Per hidden state, the norm of the difference over the norm of the whole file's rows, each frame once. Without `--weights` Whisper
has the public size and weights of the formula, whose attention is nothing like that of a trained one.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.musetalk.checkpoint_folder import filled_whisper
from engines.musetalk.checkpoints import load_whisper
from engines.musetalk.config_files import WHISPER
from engines.musetalk.speech import SpeechEncoder
from kernels.arrays import F32
from pipeline.media.audio_in import decode_audio
from pipeline.musetalk.audio_features import HOP_FRAMES, PAST_SAMPLES, MuseTalkAudioFeatures
from pipeline.musetalk.audio_windows import LAYER_DIM, LAYERS, ROW_DIM, ROWS_BEFORE
from pipeline.types import ROWS_PER_FRAME, SAMPLES_PER_FRAME


def distances(encoder: SpeechEncoder, pcm: F32) -> list[float]:
    """Relative distance per hidden state, over all whole hops of a clip of at most 30 s."""
    [whole] = encoder.encode([pcm])
    ears = MuseTalkAudioFeatures(encoder)
    hop, streamed = HOP_FRAMES * SAMPLES_PER_FRAME, []
    hops = (len(pcm) - 2 * hop) // hop
    padded = np.concatenate([np.zeros(PAST_SAMPLES, np.float32), pcm])
    for number in range(hops):
        window = padded[number * hop : number * hop + ears.window_samples]
        rows = ears.window(window, number * HOP_FRAMES * ROWS_PER_FRAME).rows
        streamed.append(rows[ROWS_BEFORE : ROWS_BEFORE + HOP_FRAMES * ROWS_PER_FRAME, :ROW_DIM])
    made = np.concatenate(streamed).reshape(-1, LAYERS, LAYER_DIM)
    want = whole[: len(made)].reshape(-1, LAYERS, LAYER_DIM)
    return [float(np.linalg.norm(made[:, i] - want[:, i]) / np.linalg.norm(want[:, i])) for i in range(LAYERS)]


def main() -> None:
    """Print the distances as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audio", type=Path, required=True)
    parser.add_argument("--weights", type=Path, help="a checkpoint folder; else weights of the formula")
    parser.add_argument("--seconds", type=float, default=10.0, help="of the clip, 30 at most")
    given = parser.parse_args()
    module = load_whisper(given.weights) if given.weights else filled_whisper(WHISPER).eval()
    pcm = decode_audio(given.audio.read_bytes()).for_networks()[: int(16_000 * min(given.seconds, 30.0))]
    print(json.dumps({"weights": str(given.weights or "formula"), "per_state": distances(SpeechEncoder(module), pcm)}))


if __name__ == "__main__":
    main()
