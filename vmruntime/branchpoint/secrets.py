"""Secrets, from inside: what stands for them here."""

from branchpoint.calls import Woken, ask


def secret(name: str) -> str:
    """What stands for a secret in this branch: give it to a client in place of the real one.

    On the way to a host that the secret is bound to it is replaced by the value, in headers, Basic
    credentials and the address asked for. It is worth nothing to anyone else, and every branch has
    another. Raises BranchpointError if there is no secret of that name.
    """
    while True:
        answer = ask({"do": "secret", "name": name})
        # Another branch may have woken from here meanwhile, with a placeholder of its own.
        if not isinstance(answer, Woken):
            return str(answer.value["placeholder"])
