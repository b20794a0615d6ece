"""The model card of the embedded weights, written from the numbers of the run that made them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TITLES = {
    "clean": "Held-out sentences and voices, clean",
    "gain_-30_db": "The same, 30 dB quieter",
    "augmented": "The same, augmented (noise, rooms, filters, codecs)",
    "real": "Recordings of people (pocketsphinx-testdata, aligned by a recogniser; never trained on)",
    "prompts": "Recordings of a person (asterisk-core-sounds-en-g722, aligned by a recogniser; never trained on)",
    "silence": "Silence after speech",
    "motion": "Head and joins",
    "rows": "Encoder rows, linear read-outs",
}


def _number(value: float) -> str:
    return f"{value:.0f}" if float(value).is_integer() and abs(value) >= 2 else f"{value:.3f}"


def _speakers(recipe: Mapping[str, Any]) -> str:
    """Who spoke the corpus."""
    if "neural voice" in str(recipe.get("speech", "")):
        return "espeak-ng, flite and Kokoro-82M (Apache-2.0)"
    return "espeak-ng and flite"


def model_card(report: Mapping[str, Any]) -> str:
    """Markdown of a training report.

    Args:
        report: `recipe` (str -> value) and `evaluation` (part -> measure -> value), as `python -m training` writes it.
    """
    lines = [
        "# Weights of the `mini` family",
        "",
        "Two networks trained together: `speech_encoder.safetensors` (PCM -> rows, 50 Hz, look-ahead 102.5 ms) and",
        "`lmdm.safetensors` (rows -> motion, 25 frames/s, 4 DDIM steps). They drive the mesh renderer: 21 control points, head,",
        "blinks. They are not a neural renderer, know no emotion, and were trained on synthetic speech only.",
        "",
        f"* **Data**: speech made by {_speakers(report['recipe'])} from texts of this project, with the synthesisers' own",
        "  phone timings. No recording of a person was used in training. The programs and voices are not part of this project.",
        "* **Targets**: lip curves derived from phones (`training.visemes`), head motion and blinks from `training.behaviour`.",
        "* **Intended use**: driving presenters that the operator may use. Do not make people say what they did not say.",
        "* **Licence**: Apache-2.0, like the code.",
        "",
        "## Recipe",
        "",
        "`make demo-weights` (or `python -m training all`) repeats it.",
        "",
        "| what | value |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in report["recipe"].items()),
        "",
        "## Held-out numbers",
        "",
        "Measured on *commanded* motion (what the networks ask of the face), through the serving stages, with the committed files.",
        "`closures_share`: /m b p/ whose commanded lip gap is closed within the phone +-40 ms. `lip_sync_r`: correlation of the",
        "commanded gap with the expected opening at lag 0. `false_closures_per_s`: closed lips away from /m b p/ and pauses.",
    ]
    for part, measures in report["evaluation"].items():
        lines += ["", f"### {_TITLES.get(part, part)}", "", "| measure | value |", "|---|---|"]
        lines += [f"| `{key}` | {_number(value)} |" for key, value in measures.items()]
    return "\n".join(lines) + "\n"
