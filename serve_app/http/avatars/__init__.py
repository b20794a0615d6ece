"""Avatars over HTTP."""
