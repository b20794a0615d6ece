"""The picture kernels against their baselines, and searches for their tiles."""
