"""An RTMP server for one publisher: `python rtmp_listener.py URL` writes what it decoded as one JSON object."""

from __future__ import annotations

import json
import sys

import av

PICTURES = 20
VOICE_FRAMES = 20


def main() -> None:
    """Take a stream, decode a little of it, and leave."""
    found = {"video": 0, "audio": 0}
    with av.open(sys.argv[1], options={"listen": "1"}) as stream:
        codecs = sorted(str(one.codec_context.name) for one in stream.streams)
        times: dict[str, list[float]] = {"video": [], "audio": []}
        for packet in stream.demux():
            for frame in packet.decode():
                found[packet.stream.type] += 1
                times[packet.stream.type].append(float(frame.time))
            if found["video"] >= PICTURES and found["audio"] >= VOICE_FRAMES:
                break
        size = [stream.streams.video[0].width, stream.streams.video[0].height]
    first = {kind: one[0] for kind, one in times.items()}
    fps = 1 / (times["video"][1] - times["video"][0])
    json.dump({"codecs": codecs, "size": size, "first": first, "fps": fps}, sys.stdout)


if __name__ == "__main__":
    main()
