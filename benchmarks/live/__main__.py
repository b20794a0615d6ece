"""`python -m benchmarks.live`."""

import sys

from benchmarks.live.run import main

if __name__ == "__main__":
    sys.exit(main())
