"""Networks of the embedded `mini` family."""
