"""`python -m benchmarks.rife`."""

import sys

from benchmarks.rife.run import main

if __name__ == "__main__":
    sys.exit(main())
