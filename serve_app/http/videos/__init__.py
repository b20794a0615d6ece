"""Videos as resources: accepted at once, made in the background, fetched when they are done."""
