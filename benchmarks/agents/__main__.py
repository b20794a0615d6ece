"""Entry point of `python -m benchmarks.agents`."""

import sys

from benchmarks.agents.run import main

if __name__ == "__main__":
    sys.exit(main())
