"""What programs import that use a LiveAnchor over HTTP: `liveanchor.client`. Needs httpx alone, nothing of the service."""
