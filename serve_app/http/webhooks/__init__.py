"""Telling callers how their videos ended: signed messages to the addresses that they named (Standard Webhooks)."""
