"""Takes given byte strings out of a stream, wherever its pieces are cut; its length stays."""

from collections.abc import Sequence

_BLANK = b"*"


class Mask:
    """Replaces each byte that belongs to one of `masks` by `*`.

    What could be the beginning of one is held back until what follows has come: at most the longest
    one's length less one.
    """

    def __init__(self, masks: Sequence[bytes]) -> None:
        self._masks = tuple(sorted({mask for mask in masks if mask}, key=len, reverse=True))
        self._beginnings = tuple({mask[:1] for mask in self._masks})
        self._reach = max((len(mask) for mask in self._masks), default=1) - 1
        self._held = b""
        self._held_masked = b""

    def feed(self, data: bytes) -> bytes:
        """What can be passed on, now that `data` has come."""
        raw = self._held + data
        masked = bytearray(self._held_masked + data)
        for mask in self._masks:
            _blank_out(mask, raw, masked)
        kept = len(raw) - self._unfinished(raw)
        self._held, self._held_masked = raw[kept:], bytes(masked[kept:])
        return bytes(masked[:kept])

    def flush(self) -> bytes:
        """What was held back, when nothing more comes."""
        rest, self._held, self._held_masked = self._held_masked, b"", b""
        return rest

    def _unfinished(self, raw: bytes) -> int:
        """How many bytes at the end could be the beginning of a mask."""
        edge = max(0, len(raw) - self._reach)
        for at in range(edge, len(raw)):
            if raw[at : at + 1] not in self._beginnings:
                continue
            tail = raw[at:]
            if any(len(mask) > len(tail) and mask.startswith(tail) for mask in self._masks):
                return len(tail)
        return 0


def _blank_out(mask: bytes, raw: bytes, masked: bytearray) -> None:
    at = raw.find(mask)
    while at >= 0:
        masked[at : at + len(mask)] = _BLANK * len(mask)
        # Two occurrences may overlap.
        at = raw.find(mask, at + 1)
