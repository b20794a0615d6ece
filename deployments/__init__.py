"""Ray Serve shims: batching, placement, deadlines, retries and metrics around the stages of `pipeline`. No algorithm lives here."""
