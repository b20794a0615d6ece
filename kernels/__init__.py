"""Image and signal operations: one op per file, a torch reference that is also the CPU path, Triton bodies in a file next to it."""
