"""Image and signal operations: one op per file, a torch reference that is also the CPU path, Triton bodies in a file next to it."""

import os

# This lowest layer is imported before any network is. Unless it is told not to, onnxruntime (1.32) reports to its maker how it is
# used and keeps a database of that in the home directory.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
