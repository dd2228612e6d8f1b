"""Runs inside the guest and may use pyzmq and ipykernel: what stands between guestd and the kernel."""
