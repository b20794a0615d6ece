"""Frame interpolation: speed and quality."""
