"""Request bodies, read in pieces and bounded."""
