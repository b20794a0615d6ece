"""Reads a pickle of numbers, text, containers and numpy arrays **without running it**.

A pickle is a program; the standard reader runs it. Here its instructions are only listed (`pickletools.genops`), and what
describes data is followed. Nothing is ever imported, called or constructed by name: the few names that numpy writes are
recognised as text, and an array is built from its raw bytes. Everything else is refused.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernels.errors import InvalidInputError

MAX_BYTES: Final = 64 * 2**20
_MAX_DEPTH: Final = 64
_KINDS: Final = frozenset("biufc")
"""numpy kinds that may be read: booleans, integers, floats. Never objects."""

_ARRAY, _FROM_BUFFER, _SCALAR, _NDARRAY, _DTYPE, _ENCODE, _ORDERED, _BYTES = range(8)
_NAMES: Final[dict[str, int]] = {
    **{f"numpy.{core}.multiarray _reconstruct": _ARRAY for core in ("core", "_core")},
    **{f"numpy.{core}.numeric _frombuffer": _FROM_BUFFER for core in ("core", "_core")},
    **{f"numpy.{core}.multiarray scalar": _SCALAR for core in ("core", "_core")},
    "numpy ndarray": _NDARRAY,
    "numpy dtype": _DTYPE,
    "_codecs encode": _ENCODE,
    "collections OrderedDict": _ORDERED,
    **dict.fromkeys(("__builtin__ bytes", "builtins bytes"), _BYTES),
}
"""Names that are understood; they stand for data and are never looked up."""


class UnsafePickleError(InvalidInputError):
    """The file is no plain pickle: it asks for something else than data, or it is damaged."""

    code = "unsafe_pickle"


@dataclass(frozen=True)
class _Name:
    meaning: int


@dataclass
class _Shell:
    """An array, a dtype or an ordered dictionary whose content comes with the next instructions."""

    meaning: int
    dtype: np.dtype[Any] | None = None
    array: NDArray[Any] | None = None


class _Mark:
    """Start of a group on the stack."""


@dataclass
class _Machine:
    source: str
    stack: list[Any] = field(default_factory=list)
    memo: dict[int, Any] = field(default_factory=dict)

    def refuse(self, what: str) -> UnsafePickleError:
        allowed = "numbers, text, lists, tuples, dictionaries and numeric numpy arrays"
        return UnsafePickleError(self.source, what, allowed, f"this pickle is refused: {what}")

    def pop(self) -> Any:
        if not self.stack:
            raise self.refuse("it is damaged (its stack runs empty)")
        return self.stack.pop()

    def pop_group(self) -> list[Any]:
        for index in range(len(self.stack) - 1, -1, -1):
            if isinstance(self.stack[index], _Mark):
                group = self.stack[index + 1 :]
                del self.stack[index:]
                return group
        raise self.refuse("it is damaged (a group without a start)")

    def top(self, kind: type[Any]) -> Any:
        if not self.stack or not isinstance(self.stack[-1], kind):
            raise self.refuse(f"it is damaged (no {kind.__name__} to fill)")
        return self.stack[-1]


def read_plain_pickle(data: bytes, source: str) -> Any:
    """The value that a pickle describes.

    Args:
        data: The pickle, protocol 0 to 5, at most 64 MiB.
        source: Name of the file, for messages.

    Returns:
        None, bool, int, float, str, bytes, list, tuple, dict, or numeric numpy arrays and numbers, nested.

    Raises:
        UnsafePickleError: It asks for a class or a function, holds objects, or is damaged.
    """
    machine = _Machine(source)
    if len(data) > MAX_BYTES:
        raise machine.refuse(f"{len(data) / 2**20:.0f} MiB")
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return _plain(machine.pop(), machine)
            _step(machine, opcode.name, argument)
    except (ValueError, IndexError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise machine.refuse(f"it is damaged ({error})") from error
    raise machine.refuse("it is cut short")


def _step(machine: _Machine, name: str, argument: Any) -> None:
    if name in _IGNORED:
        return
    if name in _LITERALS:
        machine.stack.append(argument)
    elif name in _ACTIONS:
        _ACTIONS[name](machine, argument)
    else:
        raise machine.refuse(f"instruction {name}")


def _global(machine: _Machine, spelled: str) -> None:
    if spelled not in _NAMES:
        raise machine.refuse(f"it asks for {spelled.replace(' ', '.')[:100]}")
    machine.stack.append(_Name(_NAMES[spelled]))


def _stack_global(machine: _Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    _global(machine, f"{module} {name}")


def _reduce(machine: _Machine, _: Any) -> None:
    arguments, name = machine.pop(), machine.pop()
    if not isinstance(name, _Name) or not isinstance(arguments, tuple):
        raise machine.refuse("it calls something that is not a name")
    machine.stack.append(_describe(machine, name.meaning, arguments))


def _describe(machine: _Machine, meaning: int, arguments: tuple[Any, ...]) -> Any:
    """What numpy's writer meant by naming one of its functions."""
    if meaning == _ARRAY:
        return _Shell(_ARRAY)
    if meaning in (_ORDERED, _BYTES) and not arguments:
        return {} if meaning == _ORDERED else b""
    if meaning == _DTYPE:
        return _Shell(_DTYPE, dtype=_numeric(machine, arguments[0]))
    if meaning == _ENCODE and arguments[1:] in (("latin1",), ("latin-1",)):
        return str(arguments[0]).encode("latin-1")
    if meaning == _SCALAR and isinstance(arguments[0], _Shell) and arguments[0].dtype is not None:
        return _from_bytes(machine, arguments[1], arguments[0].dtype, (), "C")[()]
    if meaning == _FROM_BUFFER and isinstance(arguments[1], _Shell) and arguments[1].dtype is not None:
        raw, shell, shape, order = arguments
        return _from_bytes(machine, raw, shell.dtype, shape, order)
    raise machine.refuse("a numpy call in an unknown form")


def _build(machine: _Machine, _: Any) -> None:
    state, shell = machine.pop(), machine.top(_Shell)
    if shell.meaning == _DTYPE and isinstance(state, tuple) and state[1] in ("<", ">", "|", "="):
        if any(part is not None for part in state[2:5]):
            raise machine.refuse("a structured numpy type")
        shell.dtype = shell.dtype.newbyteorder(state[1])
        return
    if shell.meaning == _ARRAY and isinstance(state, tuple) and len(state) == 5 and isinstance(state[2], _Shell):
        _, shape, described, fortran, raw = state
        if described.dtype is None:
            raise machine.refuse("an array without a type")
        shell.array = _from_bytes(machine, raw, described.dtype, shape, "F" if fortran else "C")
        return
    raise machine.refuse("an object with a state")


def _numeric(machine: _Machine, spelled: Any) -> np.dtype[Any]:
    dtype = np.dtype(spelled) if isinstance(spelled, str) and len(spelled) <= 4 else None
    if dtype is None or dtype.kind not in _KINDS:
        raise machine.refuse(f"numpy type {str(spelled)[:20]!r}")
    return dtype


def _from_bytes(machine: _Machine, raw: Any, dtype: np.dtype[Any], shape: Any, order: Any) -> NDArray[Any]:
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    fits = all(isinstance(n, int) and n >= 0 for n in sizes) and isinstance(raw, bytes | bytearray)
    if not fits or math.prod(sizes) * dtype.itemsize != len(raw):
        raise machine.refuse("a numpy array whose bytes do not fit its shape")
    array = np.frombuffer(bytes(raw), dtype).reshape(sizes, order="F" if order == "F" else "C")
    return np.ascontiguousarray(array, dtype.newbyteorder("=")).reshape(sizes)


def _plain(value: Any, machine: _Machine, depth: int = 0) -> Any:
    """The value with every shell replaced by its content."""
    if depth > _MAX_DEPTH:
        raise machine.refuse("nesting without end")
    if isinstance(value, _Shell):
        if value.array is None:
            raise machine.refuse("an empty array shell")
        return value.array
    if isinstance(value, dict):
        return {_plain(k, machine, depth + 1): _plain(v, machine, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(item, machine, depth + 1) for item in value)
    if isinstance(value, _Name | _Mark):
        raise machine.refuse("a class or a function as a value")
    return value


def _set_items(machine: _Machine, _: Any) -> None:
    group = machine.pop_group()
    if len(group) % 2:
        raise machine.refuse("it is damaged (a key without a value)")
    machine.top(dict).update(zip(group[::2], group[1::2], strict=True))


def _set_item(machine: _Machine, _: Any) -> None:
    value, key = machine.pop(), machine.pop()
    machine.top(dict)[key] = value


def _append(machine: _Machine, _: Any) -> None:
    value = machine.pop()
    machine.top(list).append(value)


def _appends(machine: _Machine, _: Any) -> None:
    group = machine.pop_group()
    machine.top(list).extend(group)


def _dict(machine: _Machine, _: Any) -> None:
    group = machine.pop_group()
    machine.stack.append(dict(zip(group[::2], group[1::2], strict=True)))


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def act(machine: _Machine, _: Any) -> None:
        items = [machine.pop() for _ in range(count)]
        machine.stack.append(tuple(reversed(items)))

    return act


def _put(machine: _Machine, index: Any) -> None:
    machine.memo[int(index)] = machine.top(object)


def _memoize(machine: _Machine, _: Any) -> None:
    machine.memo[len(machine.memo)] = machine.top(object)


_IGNORED: Final = frozenset({"PROTO", "FRAME"})
_LITERALS: Final = frozenset(
    """INT LONG LONG1 LONG4 BININT BININT1 BININT2 FLOAT BINFLOAT UNICODE SHORT_BINUNICODE BINUNICODE BINUNICODE8
    SHORT_BINBYTES BINBYTES BINBYTES8 BYTEARRAY8""".split()
)
_ACTIONS: Final[dict[str, Callable[[_Machine, Any], None]]] = {
    "NONE": lambda m, _: m.stack.append(None),
    "NEWTRUE": lambda m, _: m.stack.append(True),
    "NEWFALSE": lambda m, _: m.stack.append(False),
    "MARK": lambda m, _: m.stack.append(_Mark()),
    "EMPTY_DICT": lambda m, _: m.stack.append({}),
    "EMPTY_LIST": lambda m, _: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, _: m.stack.append(()),
    "DICT": _dict,
    "LIST": lambda m, _: m.stack.append(m.pop_group()),
    "TUPLE": lambda m, _: m.stack.append(tuple(m.pop_group())),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "APPEND": _append,
    "APPENDS": _appends,
    "GLOBAL": _global,
    "STACK_GLOBAL": _stack_global,
    "REDUCE": _reduce,
    "BUILD": _build,
    "POP": lambda m, _: m.pop() and None,
    "MEMOIZE": _memoize,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _put),
    **{name: lambda m, index: m.stack.append(m.memo[int(index)]) for name in ("GET", "BINGET", "LONG_BINGET")},
}
