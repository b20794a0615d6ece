"""Errors as problem details."""
