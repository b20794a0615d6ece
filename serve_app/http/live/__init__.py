"""Routes of live sessions: WebRTC offers, events, pushed speech and viewers."""
