"""Avatars: portraits and their checks, bundles on disk, the store."""
