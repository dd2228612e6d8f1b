"""What a user can ask of where fresh machines of the notebook start, as values. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShowImage:
    """Tell where they start."""


@dataclass(frozen=True, slots=True)
class AddToImage:
    """Have them start with what a branch has installed, and with the packages named."""

    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ResetImage:
    """Have them start from the base again."""


ImageCommand = ShowImage | AddToImage | ResetImage
