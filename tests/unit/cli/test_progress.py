"""The steps of a set-up as they are shown."""

import io

from rich.console import Console

from branchpoint_cli.progress import ShownProgress


def test_elsewhere_than_at_a_terminal_steps_are_lines_and_nothing_else_is_written() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with ShownProgress(console) as progress:
        progress.step("one")
        progress.advance(0.5)
        progress.done("made")
    with ShownProgress(console):
        pass
    assert isinstance(console.file, io.StringIO)
    told = console.file.getvalue()
    assert told.startswith("✓ one: made (")
    assert told.count("\n") == 1
