"""What the Ditto family does around its networks: conditions, windows, stitching, crops, put-back (facts: ditto.md)."""
