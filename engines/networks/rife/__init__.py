"""Frame interpolation networks of the RIFE 4.x line."""
