"""Runs inside the guest, on the standard library alone: the first process, and the wire format."""
