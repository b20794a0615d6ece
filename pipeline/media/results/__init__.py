"""Finished files that can be fetched for a while, in a folder or an object store."""
