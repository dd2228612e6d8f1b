"""The rows of a tree on a page, and those that the record of its session asks for."""

from collections.abc import Callable

from playwright.sync_api import Locator

from branchpoint_vmruntime.home import Home
from branchpoint_vmruntime.lineage.journal import Journal

# Key, title, state of a branch, whether the notebook is there.
Row = tuple[str, str, str, bool]

_ROWS = """tree => [...tree.querySelectorAll('.bp-row')].map(row => [
  row.dataset.key,
  row.querySelector('.bp-title').textContent,
  row.matches('.bp-tip') ? row.querySelector('.bp-aside').textContent.split(' · ')[0] : '',
  row.getAttribute('aria-current') === 'true',
])"""


def shown_rows(tree: Locator) -> set[Row]:
    """What a tree shows, with nothing folded away."""
    tree.get_by_role("button", name="Unfold").click()
    return {tuple(row) for row in tree.evaluate(_ROWS)}


def recorded_rows(home: Home, notebook: str) -> Callable[[], set[Row]]:
    """Tells what a tree has to show of a notebook, which is named by its file, by the record."""

    def recorded() -> set[Row]:
        with Journal.read(home.database) as journal:
            (session,) = [it for it in journal.sessions() if it.key.endswith(f"/{notebook}")]
            points = journal.checkpoints(session.id)
            branches = journal.branches(session.id)
        return {(f"c:{it.id}", it.label, "", False) for it in points} | {
            (f"b:{it.name}", it.name, it.state, it.name == session.current) for it in branches
        }

    return recorded
