"""Asking for a part of a file, or for it only when it has changed (RFC 9110, sections 13 and 14)."""

from __future__ import annotations

import re
from typing import Final

from serve_app.http.problems.errors import RangeError

_ONE: Final = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.ASCII | re.IGNORECASE)
_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def byte_range(header: str | None, size: int) -> tuple[int, int] | None:
    """What part of a file is asked for.

    Args:
        header: The header's value; None when there is none.
        size: Bytes of the file, at least 1.

    Returns:
        (start, stop), 0 <= start < stop <= size; None for the whole file, also where the header is none that must be understood
        (other units, several ranges, nonsense).

    Raises:
        RangeError: The range lies outside the file.
    """
    found = _ONE.fullmatch(header) if header else None
    if found is None:
        return None
    first, last = found.groups()
    if not first and not last:
        return None
    if not first:
        if int(last) == 0:
            raise RangeError(found.group(), size)
        return max(size - int(last), 0), size
    start = int(first)
    if last and int(last) < start:
        return None
    if start >= size:
        raise RangeError(found.group(), size)
    return start, min(int(last) + 1, size) if last else size


def names_tag(header: str | None, tag: str) -> bool:
    """Whether an `If-None-Match` header names a file that the client has already.

    Args:
        header: The header's value: `*`, or entity tags in any number, weak ones (`W/"..."`) too; None when there is none.
        tag: The file's own, in quotation marks.
    """
    return header is not None and (header.strip() == "*" or tag in _TAG.findall(header))
