"""Runs inside the guest, may use pyzmq and ipykernel: stands between guestd and the kernel."""
