"""The reader of plain pickles: what numpy and Python write comes back, anything that would run is refused."""

from __future__ import annotations

import collections
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.ditto.plain_pickle import UnsafePickleError, read_plain_pickle

TREE: dict[str, Any] = {
    "online_mode": True,
    "nothing": None,
    "sizes": [1, -2, 2**40, 0.5],
    "pair": (0, 202),
    "four": (1, 2, 3, 4),
    "nested": {"d0": "d0", "deep": [{"x": (1,)}]},
    "emo": np.linspace(0, 1, 16, dtype=np.float32).reshape(2, 8),
    "fortran": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
    "big_endian": np.arange(3, dtype=">i4"),
    "scalar": np.float32(1.5),
    "zero_d": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float32),
    "flags": np.array([True, False]),
    "ordered": collections.OrderedDict(a=1),
}


def same(a: Any, b: Any) -> None:
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        for key in a:
            same(a[key], b[key])
    elif isinstance(a, np.ndarray | np.generic):
        assert np.asarray(a).shape == np.asarray(b).shape
        assert np.asarray(b).dtype == np.asarray(a).dtype.newbyteorder("=")
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, list | tuple):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b and type(a) is type(b)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_come_back(protocol: int) -> None:
    same(TREE, read_plain_pickle(pickle.dumps(TREE, protocol), "cfg.pkl"))


def test_names_of_numpy_1_are_understood() -> None:
    data = pickle.dumps({"emo": TREE["emo"]}, 2).replace(b"numpy._core", b"numpy.core")
    same({"emo": TREE["emo"]}, read_plain_pickle(data, "cfg.pkl"))


class Runs:
    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self._marker),))


@pytest.mark.parametrize("protocol", range(0, pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_runs_code_is_refused_and_nothing_runs(tmp_path: Path, protocol: int) -> None:
    marker = tmp_path / "ran"
    with pytest.raises(UnsafePickleError, match=r"cfg\.pkl.*mkdir"):
        read_plain_pickle(pickle.dumps({"a": Runs(marker)}, protocol), "cfg.pkl")
    assert not marker.exists()
    pickle.loads(pickle.dumps(Runs(marker), protocol))  # noqa: S301 - proves that the file above is really dangerous
    assert marker.exists()


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}, []], dtype=object),
        np.array(["text"]),
        np.zeros(2, [("a", "f4")]),
        {1, 2},
        Path("x"),
        np.ndarray,
        np.datetime64("2020-01-01"),
    ],
    ids=["objects", "strings", "records", "set", "path", "class", "time"],
)
def test_what_is_no_plain_data_is_refused(value: object) -> None:
    for protocol in (2, 4, 5):
        with pytest.raises(UnsafePickleError):
            read_plain_pickle(pickle.dumps({"a": value}, protocol), "cfg.pkl")


def test_a_damaged_pickle_is_refused_wherever_it_ends_or_flips() -> None:
    data = pickle.dumps(TREE, 4)
    for end in range(0, len(data) - 1, 7):
        with pytest.raises(UnsafePickleError):
            read_plain_pickle(data[:end], "cfg.pkl")
    for at in range(0, len(data), 5):
        flipped = data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :]
        try:
            read_plain_pickle(flipped, "cfg.pkl")
        except UnsafePickleError:
            continue


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnsafePickleError):
        read_plain_pickle(pickle.dumps(loop, 4), "cfg.pkl")
