"""The stages as plain Python: features, motion, rendering, media in and out. Nothing here knows about Ray."""
