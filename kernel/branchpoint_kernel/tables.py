"""Tables in plain text, which stay aligned in HTML as well. Pure."""

from collections.abc import Container, Sequence

from branchpoint_kernel.rendering import Line, Verbatim


def table(head: Sequence[str], rows: Sequence[Sequence[str]], right: Container[int]) -> list[Line]:
    """Rows below a head, columns aligned; those of the numbers in `right` to the right."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]

    def laid_out(row: Sequence[str]) -> Line:
        cells = [
            f"{cell:>{width}}" if at in right else f"{cell:<{width}}"
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return Verbatim("", "  ".join(cells).rstrip(), in_columns=False)

    return [laid_out(head), *(laid_out(row) for row in rows)]
