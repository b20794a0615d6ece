"""What running the service for others rests on: the store of videos, and the way a video takes through the service."""
