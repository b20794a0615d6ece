"""Numbers as callers, files and environment variables spell them: equal numbers are equal, whatever the spelling."""

from __future__ import annotations

import math
import re
from decimal import Decimal

LARGEST_EXPONENT = 30
"""Beyond ten to this power nothing here is a number that anything could mean."""
_SPELLING = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?", re.ASCII)


def exact_number(value: object) -> int | Decimal | None:
    """The number that a value spells, exactly; whole ones as int.

    Args:
        value: A number, or text such as `25`, `25.0`, `2.5e1` or ` 25 `. No number is spelled by true, false, `1_000`, `0x19`,
            `NaN`, infinity, or anything that is 1e31 or more.

    Returns:
        The number; None where the value spells none.
    """
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        text = value.strip()
        found = Decimal(text) if _SPELLING.fullmatch(text) else None
    elif isinstance(value, int):
        found = Decimal(value) if abs(value) < 10 ** (LARGEST_EXPONENT + 1) else None
    elif isinstance(value, float):
        found = Decimal(repr(value)) if math.isfinite(value) else None
    else:
        found = value if isinstance(value, Decimal) and value.is_finite() else None
    if found is None or found.adjusted() > LARGEST_EXPONENT:
        return None
    if found.adjusted() < -LARGEST_EXPONENT:
        return found if found else 0
    whole = found.to_integral_value()
    return int(whole) if whole == found else found


def whole_number(value: object) -> int | None:
    """The whole number that a value spells; None where it spells none."""
    found = exact_number(value)
    return found if isinstance(found, int) else None
