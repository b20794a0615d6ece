"""Presenters that the project drew and ships as small pictures: who they are, and their avatars, made where they are asked for."""
