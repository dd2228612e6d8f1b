"""A recipe's digest names everything that decides what an image holds."""

from dataclasses import fields, replace

import pytest

from branchpoint_vmruntime.image.recipe import WANTED_WHEELS, Recipe
from branchpoint_vmruntime.image.wanted import ImageSpec

RECIPE = Recipe.of(ImageSpec.of(python=["tabulate"], debian=["graphviz"]))


@pytest.mark.parametrize("name", [field.name for field in fields(Recipe)])
def test_another_value_of_any_field_is_another_image(name: str) -> None:
    # A tuple, a text or a number: each is another one when doubled.
    changed = getattr(RECIPE, name) * 2
    assert replace(RECIPE, **{name: changed}).digest != RECIPE.digest


def test_the_same_recipe_has_the_same_name() -> None:
    assert Recipe.default().digest == Recipe.default().digest


def test_the_order_of_packages_and_their_spelling_make_no_other_image() -> None:
    one = ImageSpec.of(python=["Scikit_Learn <2, >=1.4", "tabulate"], debian=["graphviz", "g++"])
    other = ImageSpec.of(python=["tabulate", "scikit-learn>=1.4,<2"], debian=["g++", "graphviz"])
    assert Recipe.of(one).digest == Recipe.of(other).digest


def test_asking_for_what_every_image_has_is_asking_for_nothing() -> None:
    everyday = ImageSpec.of(python=["numpy", "Pandas"], debian=["git", "curl"])
    assert Recipe.of(everyday) == Recipe.default()


def test_a_python_package_that_is_called_like_a_debian_one_is_another() -> None:
    assert Recipe.of(ImageSpec.of(python=["file"])).python == ("file",)


def test_another_version_of_what_every_image_has_counts() -> None:
    assert Recipe.of(ImageSpec.of(python=["numpy>=99"])).python == ("numpy>=99",)


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
