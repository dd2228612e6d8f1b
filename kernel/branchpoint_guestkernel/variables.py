"""What the user's variables are, told without running their code, but for `repr`.

Each has a digest. It is *exact*, of the whole content, for the builtin scalars and containers of
them, numpy's arrays and pandas' frames and series; else it is of the type and the limited repr.
"""

import hashlib
import reprlib
import struct
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MethodDescriptorType
from typing import Any

# Emulated, Python looks at some 50 000 objects a second.
_MOST_OBJECTS = 100_000
_CHUNK_BYTES = 1 << 24
_NOTHING = object()
_SHORTENED = (int, str, list, tuple, dict, set, frozenset)
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset)


class _NotExactError(Exception):
    """To take the content in would run the user's code, or take too long."""


def describe_variables(
    variables: Mapping[str, Any], hidden: Mapping[str, Any], *, repr_limit: int
) -> list[dict[str, Any]]:
    """The variables that `%who` lists, by name.

    Each with `name`, `type` (module and qualified name), `size` (bytes, of arrays and frames with
    what they hold), `repr` (of at most `repr_limit` characters), `digest` (hexadecimal), `exact`.
    """
    shown = {
        name: value
        for name, value in list(variables.items())
        if not name.startswith("_") and value is not hidden.get(name, _NOTHING)
    }
    return [_describe(name, shown[name], repr_limit) for name in sorted(shown)]


def _describe(name: str, value: object, repr_limit: int) -> dict[str, Any]:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    text = _limited_repr(value, repr_limit)
    hashed = hashlib.blake2b(kind.encode("utf-8", "surrogatepass"), digest_size=16)
    try:
        _Content(hashed.update).take(value)
        exact = True
    except Exception:
        hashed = hashlib.blake2b(f"{kind}\0{text}".encode("utf-8", "surrogatepass"), digest_size=16)
        exact = False
    facts = {"name": name, "type": kind, "size": _size(value), "repr": text}
    return facts | {"digest": hashed.hexdigest(), "exact": exact}


def _limited_repr(value: object, limit: int) -> str:
    """Of large builtin containers only the beginning is looked at."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = limit
    short.maxlist = short.maxtuple = short.maxdict = short.maxset = short.maxfrozenset = 100
    try:
        text = short.repr(value) if type(value) in _SHORTENED else repr(value)
    except BaseException as error:
        text = f"<{type(value).__qualname__}: its repr raised {type(error).__name__}>"
    return text if len(text) <= limit else text[: max(0, limit - 1)] + "…"


def _size(value: Any) -> int:
    kind = _type_of(value)
    try:
        if kind is _numpy("ndarray"):
            return int(value.nbytes)
        if kind in _pandas("DataFrame"):
            return int(value.memory_usage().sum())
        if kind in _pandas("Series"):
            return int(value.memory_usage())
        # Another `__sizeof__` is the user's own.
        if isinstance(kind.__sizeof__, MethodDescriptorType):
            return sys.getsizeof(value)
    except Exception:
        return object.__sizeof__(value)
    return object.__sizeof__(value)


class _Content:
    """Feeds all of a value to a digest, types and lengths between, so that none passes for another.

    Exact types alone: what derives from one may be the user's, with another idea of its content.
    """

    def __init__(self, feed: Callable[[Any], None], most_objects: int = _MOST_OBJECTS) -> None:
        self._feed = feed
        self._objects_left = most_objects
        self._readers: dict[Any, Callable[[Any], None]] = {
            type(None): lambda _: None,
            type(...): lambda _: None,
            bool: lambda value: feed(b"1" if value else b"0"),
            int: lambda value: feed(hex(value).encode()),
            float: lambda value: feed(struct.pack("<d", value)),
            complex: lambda value: feed(struct.pack("<2d", value.real, value.imag)),
            str: lambda value: feed(value.encode("utf-8", "surrogatepass")),
            bytes: feed,
            bytearray: feed,
            range: lambda value: feed(repr(value).encode()),
            list: self._take_all,
            tuple: self._take_all,
            dict: lambda value: self._take_all(x for item in list(value.items()) for x in item),
            set: self._take_set,
            frozenset: self._take_set,
            _numpy("ndarray"): self._take_array,
            **dict.fromkeys(_pandas("DataFrame"), self._take_frame),
            **dict.fromkeys(_pandas("Series", "Index", "RangeIndex"), self._take_series),
        }

    def take(self, value: Any) -> None:
        """Feed one value. Raises whatever keeps it from being fed whole."""
        self._objects_left -= 1
        kind = _type_of(value)
        reader = self._readers.get(kind) or self._scalar_reader(value)
        if reader is None or self._objects_left < 0:
            raise _NotExactError
        length = len(value) if kind in _SIZED else 0
        self._feed(f"\0{kind.__qualname__} {length}\0".encode())
        reader(value)

    def _scalar_reader(self, value: Any) -> Callable[[Any], None] | None:
        generic = _numpy("generic")
        if generic is not None and type(value).__module__ == "numpy" and isinstance(value, generic):
            return lambda value: self._feed(value.tobytes())
        return None

    def _take_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self.take(value)

    def _take_set(self, values: Iterable[Any]) -> None:
        """In an order that does not come from the hashes, which differ between processes."""
        digests: list[bytes] = []
        for value in values:
            one = hashlib.blake2b(digest_size=16)
            _Content(one.update, self._objects_left).take(value)
            self._objects_left -= 1
            digests.append(one.digest())
        self._feed(b"".join(sorted(digests)))

    def _take_array(self, array: Any) -> None:
        self._feed(f"{array.dtype.str} {array.dtype.descr} {array.shape}\0".encode())
        if array.dtype.hasobject:
            self._take_all(array.flat)
        elif array.flags.c_contiguous:
            self._feed(array.reshape(-1).view("u1"))
        elif array.ndim:
            # Not all at once: a copy of it may not fit in.
            rows = max(1, _CHUNK_BYTES // max(1, array[:1].nbytes))
            for start in range(0, len(array), rows):
                self._feed(array[start : start + rows].copy("C").reshape(-1).view("u1"))

    def _take_frame(self, frame: Any) -> None:
        self._take_labels(frame.columns)
        self._take_labels(frame.index)
        for place in range(frame.shape[1]):
            self._take_values(frame.iloc[:, place])

    def _take_series(self, series: Any) -> None:
        self.take(series.name)
        if hasattr(series, "index"):
            self._take_labels(series.index)
        self._take_values(series)

    def _take_labels(self, index: Any) -> None:
        self._take_all(index.names)
        self._take_values(index)

    def _take_values(self, column: Any) -> None:
        self._feed(f"\0{column.dtype} {len(column)}\0".encode())
        self._take_array(column.to_numpy())


def _type_of(value: object) -> Any:
    return type(value)


def _numpy(name: str) -> Any:
    return getattr(sys.modules.get("numpy"), name, None)


def _pandas(*names: str) -> list[Any]:
    pandas = sys.modules.get("pandas")
    found = (getattr(pandas, name, None) for name in names)
    return [each for each in found if each is not None]
