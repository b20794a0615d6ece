"""The comparison of two videos, frame by frame."""
