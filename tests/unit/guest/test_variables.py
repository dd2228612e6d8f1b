"""What is told of the user's variables: exactly if it can be, without their code but for `repr`."""

import json
import sys
from typing import Any, ClassVar

import numpy as np
import pandas as pd  # pyright: ignore[reportMissingTypeStubs]
import pytest

from branchpoint_guestkernel.variables import describe_variables


def told(value: object, repr_limit: int = 200) -> dict[str, Any]:
    """What is told of one variable, as it goes over the wire."""
    [facts] = describe_variables({"x": value}, {}, repr_limit=repr_limit)
    return json.loads(json.dumps(facts))


def same(one: object, other: object) -> bool:
    """Whether two values look the same, told exactly."""
    first, second = told(one), told(other)
    assert first["exact"]
    assert second["exact"]
    return first["digest"] == second["digest"]


def test_the_variables_are_those_of_who_by_name() -> None:
    hidden = object()
    variables = {"b": 1, "a": 2, "_": 3, "__name__": "x", "In": hidden, "out": 4}
    found = describe_variables(variables, {"In": hidden, "out": 5}, repr_limit=10)
    assert [each["name"] for each in found] == ["a", "b", "out"]


def test_a_variable_has_its_type_its_size_and_its_repr() -> None:
    facts = told([1, 2])
    assert (facts["type"], facts["repr"]) == ("builtins.list", "[1, 2]")
    assert facts["size"] == sys.getsizeof([1, 2])


ALIKE = {
    "integers": lambda: [10**5000, -1, True],
    "floats": lambda: (1.5, float("inf"), 2j),
    "texts": lambda: ["ü", "\ud800", b"\xff", bytearray(b"x")],
    "nested": lambda: {"a": [{"b": (None, ...)}], 3: range(5)},
    "sets": lambda: {("a", frozenset({"b", "c"})), "d"},
    "arrays": lambda: np.arange(12.0).reshape(3, 4),
    "array of texts": lambda: np.array(["a", "b"]),
    "array of objects": lambda: np.array(["a", None], dtype=object),
    "array of times": lambda: np.array(["2024-01-01"], dtype="datetime64[D]"),
    "number of numpy's": lambda: np.float32(1.5),
    "frame": lambda: pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["i", "j"]),
    "series": lambda: pd.Series([1.0, 2.0], name="s"),
}


@pytest.mark.parametrize("make", ALIKE.values(), ids=ALIKE.keys())
def test_what_is_equal_in_content_looks_the_same(make: Any) -> None:
    assert same(make(), make())


DIFFERENT: dict[str, tuple[object, object]] = {
    "a truth and a number": (True, 1),
    "a number and its text": (1, "1"),
    "an integer and a float": (1, 1.0),
    "a list and a tuple": ([1], (1,)),
    "where one text ends": (["ab", "c"], ["a", "bc"]),
    "what is nested where": ([[1], 2], [[1, 2]]),
    "minus zero": (0.0, -0.0),
    "a long list's end": ([*range(5000), 1], [*range(5000), 2]),
    "an array's last": (np.arange(5000), np.append(np.arange(4999), 0)),
    "an array's shape": (np.zeros((2, 3)), np.zeros((3, 2))),
    "an array's type": (np.zeros(2, "i4"), np.zeros(2, "f4")),
    "a frame's value": (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})),
    "a frame's column": (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
    "a frame's index": (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]}, index=[7])),
    "a series' name": (pd.Series([1], name="a"), pd.Series([1], name="b")),
}


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_differs_in_content_or_type_looks_different(one: object, other: object) -> None:
    assert not same(one, other)


def test_an_array_that_does_not_lie_in_one_piece_looks_like_its_copy() -> None:
    grid = np.arange(20.0).reshape(4, 5)
    assert same(grid[:, ::2], grid[:, ::2].copy())
    assert same(grid.T, grid.T.copy())


def test_arrays_and_frames_are_as_large_as_what_they_hold() -> None:
    assert told(np.zeros(1000))["size"] == 8000
    assert told(pd.DataFrame({"a": np.zeros(1000)}))["size"] >= 8000
    assert told(pd.Series(np.zeros(1000)))["size"] >= 8000


class Nosy:
    """Tells when its code is run."""

    ran: ClassVar[list[str]] = []

    def __repr__(self) -> str:
        return "nosy"

    def __getattr__(self, name: str) -> Any:
        self.ran.append(name)
        raise AttributeError(name)

    def __len__(self) -> int:
        self.ran.append("len")
        return 1

    def __eq__(self, other: object) -> bool:
        self.ran.append("eq")
        return True

    def __hash__(self) -> int:
        self.ran.append("hash")
        return 1

    def __sizeof__(self) -> int:
        self.ran.append("sizeof")
        return 1

    def __reduce__(self) -> Any:
        self.ran.append("reduce")
        return Nosy, ()


@pytest.mark.parametrize("value", [Nosy(), [Nosy()], {"a": Nosy()}], ids=["bare", "list", "dict"])
def test_of_the_users_code_only_repr_is_run(value: object) -> None:
    Nosy.ran.clear()
    facts = told(value)
    assert Nosy.ran == []
    assert "nosy" in facts["repr"]
    assert not facts["exact"]


class Own(list[int]):
    """A list with ideas of its own."""

    def __iter__(self) -> Any:
        raise AssertionError("its code was run")


def test_what_derives_from_a_builtin_is_told_by_its_repr() -> None:
    facts = told(Own([1, 2]))
    assert (facts["exact"], facts["repr"]) == (False, "[1, 2]")


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt])
def test_a_repr_that_raises_is_told_as_such(error: type[BaseException]) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise error("no")

    assert f"its repr raised {error.__name__}" in told(Broken())["repr"]


def test_a_repr_is_cut_at_the_limit() -> None:
    assert len(told("x" * 100_000, 50)["repr"]) <= 50
    assert len(told(list(range(100_000)), 50)["repr"]) <= 50
    assert len(told(np.zeros((500, 500)), 50)["repr"]) <= 50


def test_what_contains_itself_is_told_by_its_repr() -> None:
    endless: list[object] = []
    endless.append(endless)
    assert not told(endless)["exact"]


def test_more_objects_than_can_be_looked_at_are_told_by_their_repr() -> None:
    assert not told([None] * 200_000)["exact"]
    assert not told({(n,) for n in range(100_000)})["exact"]
