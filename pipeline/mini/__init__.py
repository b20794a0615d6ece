"""The family `mini`: its stages and its registration."""
