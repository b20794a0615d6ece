"""Codes of failures that callers can do nothing about."""

from __future__ import annotations

from typing import Final

FAULTS: Final = frozenset(
    {
        # models and engines that do not load or run
        "model_file", "bad_weights", "weights", "weights_checksum", "unsafe_pickle", "unknown_network", "unsupported_network",
        "hubert_mismatch", "onnxruntime_missing", "kernels_not_compiled", "runtime_refused", "engine", "engine_export",
        "engine_build", "engine_run", "engine_off", "engine_cache", "unknown_engine", "tensorrt_missing", "extra_missing", "no_gpu",
        # work that broke, or that was dropped while a caller waits for it
        "encoder_failed", "muxing_failed", "signing_failed", "carry_mismatch", "stage_failed", "stale_epoch",
        # the agent of a conversation: an event tells its client
        "agent_missing", "agent_unreachable", "agent_failed",
    }
)  # fmt: skip
"""Codes of failures that callers can do nothing about: they are told `internal_error`, and the log has the code."""
