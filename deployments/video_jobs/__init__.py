"""Video jobs: accepted at once, kept in a durable store, made by the hosts one after the other."""
