"""Puts the numbers of a live session together as `GET /stream/webrtc/{id}/stats` shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pipeline.live.stats import LiveStats
from pipeline.webrtc.hub import HubStats
from pipeline.webrtc.peer_stats import PeerStats


def session_stats(
    session: LiveStats, hub: HubStats, peer: PeerStats, viewers: Mapping[str, PeerStats]
) -> dict[str, Any]:
    """Everything that is known about a session, as plain values.

    Args:
        session: Numbers of the session itself.
        hub: Numbers of its encoder.
        peer: Numbers of the client's connection.
        viewers: Numbers of the connections that only watch, by viewer id.
    """
    return {
        "session_id": session.session_id,
        "state": session.state,
        "drive": session.drive,
        "avatar_id": session.avatar_id,
        "epoch": session.epoch,
        "speaking": session.speaking,
        "fps": session.fps,
        "fps_in": round(session.fps_in, 2),
        "fps_out": round(peer.fps_out, 2),
        "av_offset_ms": round(session.av_offset_ms, 3),
        "send_offset_ms": None if peer.send_offset_ms is None else round(peer.send_offset_ms, 1),
        "delay_ms": round(session.delay_ms, 1),
        "delay_parts_ms": {name: round(value, 1) for name, value in session.delay_parts_ms.items()},
        "speech_to_picture_ms": round(session.delay_ms + (hub.encode_p50_ms or 0.0), 1),
        "first_frame_ms": first_frame_ms(peer),
        "connected_ms": None if peer.connected_after_s is None else round(1000 * peer.connected_after_s, 1),
        "queue_depths": {
            **{name: round(value) for name, value in session.queue_depths.items()},
            "encoder": hub.queue_depth,
            "send": peer.queue_depth,
        },
        "stage_calls": session.stage_calls,
        "stage_failures": session.stage_failures,
        "stage_latency_ms": {
            stage: {"p50": round(p50, 1), "p95": round(session.stage_p95_ms[stage], 1)}
            for stage, p50 in session.stage_p50_ms.items()
        },
        "encode_ms": {"p50": hub.encode_p50_ms, "p95": hub.encode_p95_ms},
        "encoder": hub.encoder,
        "encoder_cpu_s": round(hub.encoder_cpu_s, 3),
        "bitrate": round(1000 * peer.bitrate_kbps),
        "target_bitrate": 1000 * hub.bitrate_kbps,
        "estimated_bitrate": None if peer.estimate_kbps is None else round(1000 * peer.estimate_kbps),
        "packets_lost": peer.packets_lost,
        "fraction_lost": peer.fraction_lost,
        "round_trip_ms": peer.round_trip_ms,
        "key_requests": peer.key_requests,
        "nacked_packets": peer.nacked_packets,
        "frames": session.frames,
        "frames_encoded": hub.frames_encoded,
        "frames_repeated": session.frames_repeated,
        "quality": session.quality,
        "frames_dropped": session.frames_dropped + hub.frames_dropped + peer.units_dropped,
        "input_inserted_ms": round(session.input_inserted_ms, 1),
        "input_dropped_ms": round(session.input_dropped_ms, 1),
        "input_drift_ppm": round(session.input_drift_ppm, 1),
        "microphone": None if peer.microphone is None else asdict(peer.microphone),
        "utterances": session.utterances,
        "interruptions": session.interruptions,
        "uptime_s": round(session.uptime_s, 2),
        "viewers": {name: {"state": one.state, "fps_out": one.fps_out} for name, one in viewers.items()},
    }


def first_frame_ms(peer: PeerStats) -> float | None:
    """Milliseconds from connected to the first picture sent; None before that."""
    after_s = peer.first_picture_after_s
    return None if after_s is None else round(1000 * max(after_s, 0.0), 1)
