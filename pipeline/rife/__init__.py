"""Frame interpolation as a stage, for every family."""
