"""Measures every published number, and its baseline in the same run."""
