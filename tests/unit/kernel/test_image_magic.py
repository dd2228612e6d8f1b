"""`%image` says where fresh machines start, and changes that only for a cell of the notebook."""

from pathlib import Path

import pytest
from tests.support.fake_session import FakeSession
from tests.support.front_end import in_a_loop

from branchpoint_kernel.grammar import parse
from branchpoint_kernel.image_commands import AddToImage, ResetImage, ShowImage
from branchpoint_kernel.image_operations import ImageOperations
from branchpoint_kernel.rendering import as_text
from branchpoint_kernel.returning import Returning
from branchpoint_vmruntime.errors import ImageBuildError, UsageError

ADD = AddToImage(("small",))


def test_packages_are_taken_as_pip_takes_them() -> None:
    assert parse("image", "add Small 'scipy >= 1.11' # for later") == AddToImage(
        ("small", "scipy>=1.11")
    )
    assert parse("image", "add") == AddToImage(())
    assert parse("image", "") == ShowImage()
    assert parse("image", "reset") == ResetImage()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bake small", "not by 'bake'"),
        ("add https://example.org/a.whl", "'https://example.org/a.whl' is no Python package"),
        ("add ./wheels", "'./wheels' is no Python package"),
        ("add -r", "'-r' is no Python package"),
        ("reset small", "'small'"),
    ],
)
def test_what_is_no_package_is_quoted_with_what_is_accepted(line: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        parse("image", line)
    assert "%image" in refused.value.hint


@in_a_loop
async def test_it_tells_where_fresh_machines_start_and_with_which_packages() -> None:
    image = ImageOperations(FakeSession())
    assert "start from the base" in as_text((await image.perform(ShowImage(), None)).lines)
    baked = await image.perform(ADD, None)
    assert "small==1.0" in as_text(baked.lines)
    assert "left out, since no index has them: mine==0.1" in as_text(baked.lines)
    shown = await image.perform(ShowImage(), None)
    assert "image-1: small==1.0" in as_text(shown.lines)
    assert shown.more["baked"] == [{"label": "image-1", "packages": "small==1.0"}]
    reset = await image.perform(ResetImage(), None)
    assert "start from the base" in as_text(reset.lines)


@in_a_loop
async def test_a_start_that_cannot_be_loaded_is_told_with_the_reason() -> None:
    session = FakeSession()
    image = ImageOperations(session)
    await image.perform(ADD, None)
    session.image.refused = "image was one and is another"
    text = as_text((await image.perform(ShowImage(), None)).lines)
    assert "start from the base, and not from image-1" in text
    assert "image was one and is another" in text


@pytest.mark.parametrize("command", [ADD, ResetImage()])
@in_a_loop
async def test_code_in_a_machine_cannot_leave_anything_for_later_ones(
    command: AddToImage | ResetImage,
) -> None:
    session = FakeSession()
    with pytest.raises(UsageError, match="only a cell"):
        await ImageOperations(session).perform(command, "main")
    assert session.image.start().checkpoint.label == "base"


@in_a_loop
async def test_what_fails_changes_nothing() -> None:
    session = FakeSession()
    session.image.error = ImageBuildError("pip could not install small")
    with pytest.raises(ImageBuildError):
        await ImageOperations(session).perform(ADD, None)
    assert session.image.start().checkpoint.label == "base"


@in_a_loop
async def test_a_new_kernel_says_by_itself_that_it_could_not_start_where_it_should(
    tmp_path: Path,
) -> None:
    session = FakeSession()
    await ImageOperations(session).perform(ADD, None)
    session.image.refused = "image was one and is another"
    [said] = Returning(session, tmp_path, session.record.key).say()
    assert "start from the base, and not from image-1" in said["text/plain"]
    session.image.refused, session.image.failed = "", "the disk is full"
    [said] = Returning(session, tmp_path, session.record.key).say()
    assert "this machine started from the base, and not from image-1" in said["text/plain"]
    assert "the disk is full" in said["text/plain"]
    session.image.failed = ""
    assert Returning(session, tmp_path, session.record.key).say() == []
