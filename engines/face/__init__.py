"""Face detection, the 468-point mesh, and whether a picture shows a face at all."""
