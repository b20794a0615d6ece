"""What `liveanchor doctor --url` looks at in a running service, from outside."""
