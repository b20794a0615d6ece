"""The Ray graph against one process."""
