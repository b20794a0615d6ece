"""`python -m benchmarks.production`: makes `results/cpu-2core/production.json`."""

from __future__ import annotations

import sys

from benchmarks.production.run import main

sys.exit(main())
