"""One clip or one session: what the face does, which frames are drawn, and how they reach the canvas."""
