"""The family `musetalk`: the mouth of a picture or clip, painted anew for every frame on its own (docs/musetalk.md)."""
