"""The Ditto renderer reformulated for speed; every part equals its reference module in float32."""
