"""Routes of presenters, which the code calls avatars."""
