"""HTTP: the FastAPI application and the deployment that serves it."""
