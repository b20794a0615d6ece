"""`python -m benchmarks.musetalk`."""

import sys

from benchmarks.musetalk.run import main

if __name__ == "__main__":
    sys.exit(main())
