"""Ray Serve shims, one file per deployment; the logic they serve lives in `pipeline`."""
