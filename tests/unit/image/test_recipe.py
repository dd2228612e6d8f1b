"""A recipe's digest names everything that decides what an image holds."""

from dataclasses import fields, replace

import pytest

from branchpoint_vmruntime.image.recipe import WANTED_WHEELS, Recipe

RECIPE = Recipe.default()


@pytest.mark.parametrize("name", [field.name for field in fields(Recipe)])
def test_another_value_of_any_field_is_another_image(name: str) -> None:
    # A tuple, a text or a number: each is another one when doubled.
    changed = getattr(RECIPE, name) * 2
    assert replace(RECIPE, **{name: changed}).digest != RECIPE.digest


def test_the_same_recipe_has_the_same_name() -> None:
    assert Recipe.default().digest == RECIPE.digest


def test_every_wheel_is_locked_by_version_and_hash() -> None:
    assert RECIPE.wheels
    for wheel in RECIPE.wheels:
        requirement, _, digest = wheel.partition(" --hash=sha256:")
        assert "==" in requirement
        assert len(digest) == 64


def test_the_lock_names_no_place_to_fetch_from() -> None:
    assert not [wheel for wheel in RECIPE.wheels if "://" in wheel]


def test_everything_wanted_is_locked() -> None:
    locked = {wheel.partition("==")[0] for wheel in RECIPE.wheels}
    wanted = {requirement.partition(">=")[0] for requirement in WANTED_WHEELS}
    assert wanted <= locked
