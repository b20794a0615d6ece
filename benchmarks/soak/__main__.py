"""`python -m benchmarks.soak --minutes 60`: rows `soak_...` of `results/cpu-2core/production.json`."""

from __future__ import annotations

import sys

from benchmarks.soak.run import main

sys.exit(main())
