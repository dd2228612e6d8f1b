"""What `kernel_info_request` is answered with: before the machine is up, and then by the guest."""

from typing import Any

# Equal to what ipykernel 7.4 says in the default image (Python 3.11.2), so that a front end that
# asks before the machine is up highlights, exports, offers subshells and debugs just the same.
_EARLY: dict[str, Any] = {
    "status": "ok",
    "protocol_version": "5.3",
    "implementation": "ipython",
    "implementation_version": "9.18.1",
    "language_info": {
        "name": "python",
        "version": "3.11.2",
        "mimetype": "text/x-python",
        "codemirror_mode": {"name": "ipython", "version": 3},
        "pygments_lexer": "ipython3",
        "nbconvert_exporter": "python",
        "file_extension": ".py",
    },
    "banner": "",
    "help_links": [],
    "supported_features": ["kernel subshells", "debugger"],
}


class KernelFacts:
    """What is known of the kernel so far. `machine` says in a line what it runs in."""

    def __init__(self) -> None:
        self.machine = "in a microVM that is being started"
        self._content = dict(_EARLY)

    def learn(self, content: dict[str, Any]) -> None:
        """The guest's own reply, known from now on."""
        self._content = content

    @property
    def language(self) -> str:
        """What its cells are written in, in small letters; Python until it is known.

        >>> facts = KernelFacts()
        >>> facts.learn({"language_info": {"name": "Bash"}})
        >>> facts.language
        'bash'
        """
        return str(self._content.get("language_info", {}).get("name", "python")).lower()

    def content(self) -> dict[str, Any]:
        """The content of a `kernel_info_reply`."""
        banner = f"{self._content['banner'].rstrip()}\n{self.machine}\n".lstrip()
        return {**self._content, "banner": banner}
