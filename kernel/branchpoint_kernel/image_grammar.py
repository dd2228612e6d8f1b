"""From the words of `%image` to its commands. Pure."""

from collections.abc import Callable
from types import MappingProxyType

from branchpoint_kernel.image_commands import AddToImage, ImageCommand, ResetImage, ShowImage
from branchpoint_kernel.words import Words
from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.image.wanted import parse_python


def _image(words: Words, _body: str) -> ImageCommand:
    if not words.plain:
        return ShowImage()
    action, *named = words.plain
    if action not in words.magic.actions:
        raise words.refuse(f"%image is followed by add or reset, not by {action!r}")
    if action == "reset":
        words.at_most(1)
        return ResetImage()
    try:
        return AddToImage(tuple(dict.fromkeys(parse_python(name) for name in named)))
    except UsageError as error:
        raise words.refuse(f"{error}: {error.hint}") from None


IMAGE_READERS: MappingProxyType[str, Callable[[Words, str], ImageCommand]] = MappingProxyType(
    {"image": _image}
)
