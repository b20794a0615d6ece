"""Makes the embedded weights of the `mini` family, reproducibly."""
