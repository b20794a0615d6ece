"""What lies between the convolutions of a frame interpolation network."""
