"""What host and guest both know of messages is the same, where neither may import the other."""

from branchpoint_guestkernel import runs
from branchpoint_kernel import asides


def test_requests_of_guestd_are_known_by_the_names_it_gives_them() -> None:
    assert asides.OF_GUESTD == runs.OWN_PREFIX


def test_what_is_output_of_threads_for_the_host_is_what_the_guest_lets_pass() -> None:
    assert vars(runs)["_OUTPUTS"] == asides.OUTPUTS
