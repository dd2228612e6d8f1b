"""The page's types are those of what it is sent, and of what may be asked for in its name."""

import json
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from datetime import datetime
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from tests.architecture.front_end import Field, Kinds, Module
from tests.architecture.house import ROOT

from branchpoint_kernel import history, lineage_host
from branchpoint_nbext import orders
from branchpoint_nbext.payloads import OverviewPayload
from branchpoint_vmruntime import lineage_view
from branchpoint_vmruntime.lineage_view import LineageView

FACTS = Module("lineage/facts.ts")
PLAIN: Mapping[Any, str] = {
    str: "string",
    datetime: "string",
    bool: "boolean",
    int: "number",
    float: "number",
}
TAKERS: Mapping[Callable[[str, object], Any], str] = {
    orders.a_flag: "boolean",
    orders.a_count: "number",
    orders.some_names: "string[]",
}


def facts() -> list[type[Any]]:
    """All that a view is made of."""
    return [it for it in vars(lineage_view).values() if isinstance(it, type) and is_dataclass(it)]


def in_typescript(kind: Any) -> Kinds:
    """What JSON has for a type of ours, as `control_facts.to_json` writes it.

    >>> sorted(in_typescript(int | None)), in_typescript(tuple[str, ...])
    (['null', 'number'], frozenset({'string[]'}))
    """
    if isinstance(kind, UnionType):
        return Kinds().union(*(in_typescript(option) for option in get_args(kind)))
    if kind is NoneType:
        return Kinds({"null"})
    if get_origin(kind) is tuple:
        (inner,) = in_typescript(get_args(kind)[0])
        return Kinds({f"{inner}[]"})
    if kind == Mapping[str, float]:
        return Kinds({"Record<string, number>"})
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return Kinds(f"'{member.value}'" for member in kind)
    return Kinds({PLAIN.get(kind, kind.__name__)})


def mirrored(kind: type[Any]) -> dict[str, Field]:
    """What an interface has to say of a fact. All fields are sent, those with a default as well."""
    return {name: Field(in_typescript(each)) for name, each in get_type_hints(kind).items()}


@pytest.mark.parametrize("kind", facts(), ids=lambda kind: kind.__name__)
def test_the_page_knows_a_fact_by_the_fields_it_has(kind: type[Any]) -> None:
    assert FACTS.interfaces[kind.__name__] == mirrored(kind)


def test_the_page_knows_a_session_at_a_glance_by_the_fields_it_has() -> None:
    expected = mirrored(OverviewPayload)
    # The payload has the word, so that it is plain JSON; the page can tell which words there are.
    expected["owner"] = mirrored(LineageView)["owner"]
    assert Module("api.ts").interfaces["SessionOverview"] == expected


@pytest.mark.parametrize(
    ("union", "known"), [("Action", orders.ACTIONS), ("Question", orders.QUESTIONS)]
)
def test_the_page_asks_for_what_the_route_takes(
    union: str, known: Mapping[str, Mapping[str, orders.Field]]
) -> None:
    taken = {
        op: {
            name: Field(Kinds({TAKERS.get(field.take, "string")}), field.optional)
            for name, field in fields.items()
        }
        for op, fields in known.items()
    }
    assert FACTS.union(union) == taken


def test_the_widget_is_asked_for_what_the_kernel_takes() -> None:
    assert FACTS.union("Action").keys() == lineage_host.ACTIONS
    assert FACTS.union("Question").keys() == lineage_host.QUESTIONS


def test_the_page_knows_a_text_that_is_not_whole_by_how_it_ends() -> None:
    told = json.dumps(history.CUT, ensure_ascii=False).replace('"', "'")
    text = (ROOT / "nbext" / "src" / "text_plan.ts").read_text()
    assert f"export const CUT = {told};" in text


def test_the_page_knows_how_many_operations_a_view_has_at_the_most() -> None:
    text = (ROOT / "nbext" / "src" / "lineage" / "formats.ts").read_text()
    assert f"export const MOST_OPERATIONS = {lineage_view.MOST_OPERATIONS};" in text
