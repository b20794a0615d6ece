"""`python -m benchmarks.graph`."""

import sys

from benchmarks.graph.run import main

if __name__ == "__main__":
    sys.exit(main())
