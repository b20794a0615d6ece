"""Image and signal operations: one op per file, a torch reference that is also the CPU path, Triton bodies beside it."""
