"""Live sessions as participants of LiveKit rooms, who speak what an agent of the room sends."""
