"""What a manifest says of budgets: what machines may take, and what a session may spend."""

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from branchpoint_vmruntime.budget import Budgets
from branchpoint_vmruntime.manifest.machine import read_memory, read_number
from branchpoint_vmruntime.manifest.nodes import Nodes
from branchpoint_vmruntime.outside.amounts import parse_duration, parse_money, parse_whole
from branchpoint_vmruntime.outside.facts import Limits, Price

_DEFAULT_CURRENCY = "USD"
_LONGEST_MODEL = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceList:
    """Prices of models by name, and their currency."""

    prices: Mapping[str, Price]
    currency: str = _DEFAULT_CURRENCY


def read_budgets(
    nodes: Nodes, node: yaml.Node, *, prices: Mapping[str, Price]
) -> tuple[Budgets, Limits]:
    """`{memory: 4gb, machines: 8, tokens: 200000, money: 5.00, forks: 100, time: 2h}`."""
    fields = nodes.fields(node, ("memory", "machines", "tokens", "money", "forks", "time"))
    memory = read_memory(nodes, fields["memory"]) << 20 if "memory" in fields else None
    machines = read_number(nodes, fields["machines"]) if "machines" in fields else None
    if machines == 0:
        nodes.refuse(fields["machines"], "a session has at least one machine, not 0")
    tokens = nodes.parsed(fields["tokens"], parse_whole) if "tokens" in fields else None
    money = nodes.parsed(fields["money"], parse_money) if "money" in fields else None
    if money is not None and not prices:
        nodes.refuse(
            fields["money"],
            "a budget of money needs prices, and this file lists none: "
            "prices: {models: {NAME: {input: 0.15, output: 0.6}}}",
        )
    forks = nodes.parsed(fields["forks"], parse_whole) if "forks" in fields else None
    wall_s = nodes.parsed(fields["time"], parse_duration) if "time" in fields else None
    if wall_s == 0:
        nodes.refuse(fields["time"], "a machine lives for more than no time: at least 1s")
    return (
        Budgets(memory_bytes=memory, machines=machines),
        Limits(tokens=tokens, money=money, forks=forks, wall_s=wall_s),
    )


def read_prices(nodes: Nodes, node: yaml.Node) -> PriceList:
    """`{currency: EUR, models: {NAME: {input: 0.15, output: 0.6}}}`."""
    fields = nodes.fields(node, ("currency", "models"))
    prices: dict[str, Price] = {}
    for key, name, of_model in nodes.named(fields["models"]) if "models" in fields else ():
        if not (name and name.isprintable() and len(name) <= _LONGEST_MODEL):
            nodes.refuse(key, f"{name[:40]!r} cannot be the name of a model")
        prices[name] = _price(nodes, name, of_model)
    currency = nodes.text(fields["currency"]) if "currency" in fields else _DEFAULT_CURRENCY
    if not (currency.isascii() and currency.isalpha() and currency.isupper()):
        nodes.refuse(fields["currency"], f"{currency!r} is not a currency such as USD or EUR")
    if len(currency) != len(_DEFAULT_CURRENCY):
        nodes.refuse(fields["currency"], f"{currency!r} is not a currency such as USD or EUR")
    return PriceList(prices=prices, currency=currency)


def _price(nodes: Nodes, model: str, node: yaml.Node) -> Price:
    fields = nodes.fields(node, ("input", "output"))
    if len(fields) < len(("input", "output")):
        nodes.refuse(node, f"{model} needs a price for input and for output, of a million tokens")
    return Price(
        input=nodes.parsed(fields["input"], parse_money),
        output=nodes.parsed(fields["output"], parse_money),
    )
