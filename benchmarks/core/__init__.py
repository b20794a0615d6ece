"""What every benchmark shares: records, timing, memory, the facts of the machine."""
