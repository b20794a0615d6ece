"""The painter and its decoders written anew for GPUs: the same functions in fewer, larger steps."""
