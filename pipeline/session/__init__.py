"""Runs one clip or one session: decides what the face does, has its frames drawn and puts them into the canvas."""
