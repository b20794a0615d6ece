"""Weights files: safe reading, download, import, verification, and the table of known weights."""
