"""What a manifest says of the image: packages its machines have beyond the everyday."""

from collections.abc import Callable

import yaml

from branchpoint_vmruntime.errors import UsageError
from branchpoint_vmruntime.image.wanted import ImageSpec, parse_debian, parse_python
from branchpoint_vmruntime.manifest.nodes import Nodes


def read_image(nodes: Nodes, node: yaml.Node) -> ImageSpec:
    """`{python: [scikit-learn, "scipy>=1.11"], debian: [graphviz]}`; one package may be alone."""
    fields = nodes.fields(node, ("python", "debian"))
    python = _packages(nodes, fields["python"], parse_python) if "python" in fields else []
    debian = _packages(nodes, fields["debian"], parse_debian) if "debian" in fields else []
    try:
        return ImageSpec.of(python=python, debian=debian)
    except UsageError as error:
        nodes.refuse(node, f"{error}; {error.hint}")


def _packages(nodes: Nodes, node: yaml.Node, parse: Callable[[str], str]) -> list[str]:
    return [nodes.parsed(part, parse) for part in nodes.one_or_more(node)]
