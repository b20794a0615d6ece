"""Sampling of pictures and feature volumes at positions between their pixels."""
