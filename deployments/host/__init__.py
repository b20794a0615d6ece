"""Serves sessions on the cluster: file jobs, live sessions, their registry, and the avatars that they use."""
