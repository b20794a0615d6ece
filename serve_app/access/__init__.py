"""API keys: who may do what. Knows nothing of HTTP."""
