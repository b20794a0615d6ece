"""Live sessions over HTTP."""
