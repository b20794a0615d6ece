"""Keys, owners and limits of callers over HTTP."""
