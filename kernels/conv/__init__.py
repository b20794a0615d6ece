"""Convolutions with what follows them in the same pass."""
