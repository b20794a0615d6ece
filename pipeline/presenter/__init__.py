"""The drawing behind the default presenter: an illustrated news anchor with known face-mesh landmarks."""
