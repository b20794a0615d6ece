"""WebRTC: one encode for all viewers of a session, packets with our timestamps over aiortc, the microphone in."""
