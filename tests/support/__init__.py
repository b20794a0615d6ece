"""Fakes, servers and small media that tests share."""
