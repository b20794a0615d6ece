"""How a presenter behaves in a Pipecat pipeline: `python -m benchmarks.agents.pipecat` writes `pipecat_*` of `agents.json`.

Needs Pipecat's own environment, which is made under `out/` at the first run, and `python -m benchmarks.agents.click_service`,
which is started here. The viewer, the pipeline and the service share this machine's cores.

The tail of an interruption ends with the last packet that holds sound, or with the last picture of the old speech that was not seen
before, whichever is later; a picture that stands still afterwards, as a session holds one before it fades, is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.agents.environment import ROOT, environment_python, variables
from benchmarks.agents.run import DEFAULT_OUT, SUITE
from benchmarks.core.record import format_table, make_record, write_records
from benchmarks.core.run_info import describe_run
from kernels.errors import LiveAnchorError

PACKAGE: Final = "pipecat-liveanchor"
SENTENCES: Final = 20
MEASURE_S: Final = 600.0
CHUNK_MS: Final = 40.0
"""Pipecat's transport lets the chunk that it sends come to its end."""
AS_IT_COMES: Final = "the transport with Pipecat's usual parameters and its own stamps, same run"


@contextmanager
def click_service() -> Iterator[str]:
    """Address of a `benchmarks.agents.click_service` of one's own."""
    command = [sys.executable, "-m", "benchmarks.agents.click_service"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=variables()) as process:  # noqa: S603  # our own
        if process.stdout is None:
            raise LiveAnchorError("the service has no output")
        try:
            line = ""
            while not line.startswith("http://"):
                if not (line := process.stdout.readline()):
                    raise LiveAnchorError("the service did not start")
            yield line.strip()
        finally:
            process.terminate()
            process.stdout.close()


def measured(url: str, sentences: int, *more: str) -> dict[str, Any]:
    """What `integrations/pipecat-liveanchor/tests/end_to_end.py` reports.

    Raises:
        LiveAnchorError: It fails.
    """
    script = ROOT / "integrations" / PACKAGE / "tests" / "end_to_end.py"
    command = [str(environment_python(PACKAGE)), str(script), "--url", url, "--count", str(sentences), *more]
    done = subprocess.run(  # noqa: S603  # our own
        command, capture_output=True, text=True, check=False, timeout=MEASURE_S, env=variables()
    )
    if done.returncode:
        raise LiveAnchorError(f"{script.name}: {done.stderr[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run and write the records; 0 done, 1 something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument("--sentences", type=int, default=SENTENCES, help="interruptions, and sentences after them")
    options = parser.parse_args(arguments)
    run = describe_run("python -m benchmarks.agents.pipecat")
    try:
        with click_service() as url:
            found = measured(url, options.sentences)
            stock = measured(url, max(options.sentences // 4, 1), "--stock")
    except (LiveAnchorError, subprocess.TimeoutExpired) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    tails = [max(both) for both in zip(found["sound_tail_ms"], found["picture_tail_ms"], strict=True)]
    records = [
        make_record(
            run, suite=SUITE, case="pipecat_interrupt_tail_ms", unit="ms", samples=tails, higher_is_better=False,
            floor_value=CHUNK_MS,
        ),
        make_record(
            run, suite=SUITE, case="pipecat_av_offset_ms", unit="ms", samples=[abs(one) for one in found["offset_ms"]],
            higher_is_better=False, baseline=AS_IT_COMES,
            baseline_value=statistics.median(abs(one) for one in stock["offset_ms"]),
        ),
    ]  # fmt: skip
    write_records(options.out, records)
    print(format_table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
