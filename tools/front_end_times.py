#!/usr/bin/env python3
"""Print how soon a page shows what was done, and how long drawing takes: for docs/benchmarks.md.

In a real JupyterLab in Chromium, with real machines; needs what `tools/browser.sh` installs.
"""

import os
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from playwright.sync_api import Browser, Page
from tests.support.homes import lend_base, lend_images
from tests.support.jupyter_server import jupyter_server
from tests.support.tree_page import tree_page
from tests.support.web_page import NotebookPage, chromium, write_notebook, write_settings

from branchpoint_vmruntime.home import Home

TIMES = 10
CELLS = ("n = 1", "%lineage", "%checkpoint warm")
NODES = (300, 1000)

# Notes by the page's own clock when a kernel's reply came and when rows came into each tree.
_WATCH = """() => {
  const { content, sessionContext } = window.jupyterapp.shell.currentWidget;
  const trees = {
    panel: document.querySelector('#branchpoint-panel .bp-lineage'),
    widget: document.querySelector('.jp-OutputArea .bp-lineage')
  };
  const is = {
    saved: (tree, name) =>
      [...tree.querySelectorAll('.bp-title')].some(title => title.textContent === name),
    current: (tree, name) =>
      tree.querySelector('[aria-current=true] .bp-title')?.textContent === name
  };
  const shown = (what, name) =>
    Promise.all(Object.entries(trees).map(([place, tree]) => new Promise(done => {
      const look = () => {
        if (!is[what](tree, name)) return false;
        done([place, performance.now()]);
        return true;
      };
      const observer = new MutationObserver(() => look() && observer.disconnect());
      const all = { subtree: true, childList: true, characterData: true, attributes: true };
      if (!look()) observer.observe(tree, all);
    }))).then(Object.fromEntries);
  const kernel = () => sessionContext.session.kernel;
  const post = fields => {
    const cookie = /_xsrf=([^;]+)/.exec(document.cookie);
    const headers = { 'Content-Type': 'application/json', 'X-XSRFToken': cookie?.[1] ?? '' };
    return fetch('/branchpoint/act', { method: 'POST', headers, body: JSON.stringify(fields) });
  };
  window.measured = {
    // A cell, as a notebook runs it: what comes of it is told by its reply.
    async cell(code, what, name) {
      const seen = shown(what, name);
      const began = performance.now();
      await kernel().requestExecute({ code }).done;
      const replied = performance.now();
      return { began, replied, ...(await seen) };
    },
    // What a button asks the server for.
    async act(fields, what, name) {
      const seen = shown(what, name);
      const began = performance.now();
      const answer = await post(fields);
      if (!answer.ok) throw new Error(await answer.text());
      await answer.json();
      const replied = performance.now();
      return { began, replied, ...(await seen) };
    },
    async round(ask) {
      const began = performance.now();
      await ask();
      return performance.now() - began;
    },
    status: () => window.measured.round(async () => (await fetch('/api/status')).json()),
    comms: () =>
      window.measured.round(() => kernel().requestCommInfo({ target_name: 'nobody' })),
    view: session => window.measured.round(
      async () => (await fetch(`/branchpoint/view?session=${session}`)).json()
    ),
    async session() {
      const answer = await fetch(`/branchpoint/session-of?kernel=${kernel().id}`);
      return (await answer.json()).session;
    },
    clock: () => Date.now() - performance.now()
  };
}"""

Row = tuple[str, Sequence[float]]


def main() -> None:
    """Measure, and print tables of milliseconds."""
    before = os.getloadavg()
    with _home(), chromium() as browser:
        rows = [*_shown(browser), *_drawn(browser)]
        version = browser.version
    now, after = datetime.now(UTC), os.getloadavg()
    print(
        f"{now:%Y-%m-%d %H:%M} UTC, Chromium {version}, {os.cpu_count()} cores; "
        f"load {before[0]:.1f} before, {after[0]:.1f} after; {TIMES} times each"
    )
    print()
    print("| what | median | range |")
    print("|---|---|---|")
    for what, times in rows:
        print(f"| {what} | {median(times):.1f} ms | {min(times):.1f} to {max(times):.1f} |")


def _shown(browser: Browser) -> list[Row]:
    with _lab(browser) as page:
        session = _asked(page, "session()")
        floor = [
            ("floor: `GET api/status`, there and back", _times(page, "status()")),
            ("floor: what comms there are, there and back", _times(page, "comms()")),
            ("`GET branchpoint/view`, there and back", _times(page, f"view('{session}')")),
        ]
        cells, acts, turns = list[Any](), list[Any](), list[Any]()
        for number in range(TIMES):
            name = f"cell-{number}"
            cells.append(_asked(page, f"cell('%checkpoint {name}', 'saved', '{name}')"))
        saves = {"session": session, "op": "checkpoint"}
        for number in range(TIMES):
            name = f"act-{number}"
            fields = saves | {"label": name}
            acts.append(_asked(page, f"act({fields}, 'saved', '{name}')"))
        _asked(page, "cell('%fork 1 --names other', 'saved', 'other')")
        for number in range(TIMES):
            name = ("other", "main")[number % 2]
            fields = {"session": session, "op": "switch", "name": name}
            turns.append(_asked(page, f"act({fields}, 'current', '{name}')"))
        return [
            *floor,
            *_after("`%checkpoint` in a cell", "its reply", cells),
            *_after("a checkpoint by the act route", "the answer", acts),
            *_after("a switch by the act route", "the answer", turns),
        ]


def _after(what: str, end: str, runs: Sequence[Any]) -> list[Row]:
    # Each by the page's clock: a row may be there before the reply is.
    lasted = [run["replied"] - run["began"] for run in runs]
    rows: list[Row] = [(f"{what}, all of it as the page sees it", lasted)]
    for place in ("panel", "widget"):
        later = [run[place] - run["replied"] for run in runs]
        rows.append((f"{what}: from {end} to the row in the {place}", later))
    return rows


@contextmanager
def _home() -> Generator[None]:
    """A home for what is measured, with the images and the base of this user's."""
    with TemporaryDirectory() as folder:
        made = Home(Path(folder), Path(folder) / "run")
        lend_images(Home.default(), made)
        lend_base(Home.default(), made)
        os.environ["BRANCHPOINT_HOME"] = folder
        yield


@contextmanager
def _lab(browser: Browser) -> Generator[Page]:
    with TemporaryDirectory() as folder:
        place = Path(folder)
        write_notebook(place / "bench.ipynb", *CELLS)
        exposed = "--LabApp.expose_app_in_browser=True"
        with jupyter_server("jupyterlab", place, exposed) as server:
            write_settings(server)
            context = browser.new_context(viewport={"width": 1700, "height": 1000})
            notebook = NotebookPage(context.new_page(), place)
            notebook.open(server, "lab/tree/bench.ipynb")
            notebook.page.locator(".bp-Status").click()
            for number in range(len(CELLS)):
                notebook.run_cell(number)
            for tree in ("#branchpoint-panel", ".jp-OutputArea"):
                notebook.page.locator(f"{tree} .bp-title", has_text="warm").wait_for()
            notebook.page.evaluate(_WATCH)
            yield notebook.page
            context.close()


def _asked(page: Page, script: str) -> Any:
    return page.evaluate(f"window.measured.{script}")


def _times(page: Page, script: str) -> list[float]:
    return [_asked(page, script) for _ in range(TIMES)]


def _drawn(browser: Browser) -> list[Row]:
    rows = list[Row]()
    for count in NODES:
        first, update = list[float](), list[float]()
        for _ in range(TIMES):
            with tree_page(browser) as tree:
                tree.open(count, width="960px")
                first.append(tree.evaluate("demo.first_ms"))
                update += tree.evaluate("demo.update(10)")
        rows.append((f"script: {count} checkpoints drawn for the first time", first))
        rows.append((f"script: {count} checkpoints, an update of live figures", update))
    return rows


if __name__ == "__main__":
    main()
