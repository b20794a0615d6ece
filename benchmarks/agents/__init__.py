"""Measures what voice agents and their viewers wait for."""
