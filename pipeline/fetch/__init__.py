"""Fetching what callers name by its address, without reaching what only this machine should reach."""
