"""Picture and lip quality, and the speed of one process."""
