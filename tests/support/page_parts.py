"""Whether the parts of a page can be read by everybody: words, names of controls, what moves."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Locator, Page

# Of all words on the page, those whose contrast with what is behind them is below WCAG's AA.
_FAINT_WORDS = """roots => {
  const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
  const read = colour => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const part = value => value <= 10 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  const behind = node => {
    for (let at = node; at; at = at.parentElement) {
      const colour = read(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.closest(roots)) continue;
    if (!node.checkVisibility({visibilityProperty: true})) continue;
    const [low, high] = [light(read(getComputedStyle(node).color)), light(behind(node))]
      .sort((one, other) => one - other);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) faint.push(`${walker.currentNode.data.trim()} ${ratio.toFixed(2)}`);
  }
  return faint;
}"""

_WATCH_SHIFTS = """roots => {
  const element = node => (node?.nodeType === Node.TEXT_NODE ? node.parentElement : node);
  const moved = [];
  const note = entries => {
    for (const { hadRecentInput, sources } of entries) {
      if (hadRecentInput) continue;
      const inside = sources.map(({ node }) => element(node)).filter(node => node?.closest(roots));
      moved.push(...inside.map(node => node.className || node.tagName));
    }
  };
  const observer = new PerformanceObserver(list => note(list.getEntries()));
  observer.observe({ type: 'layout-shift' });
  window.moved = () => {
    note(observer.takeRecords());
    observer.disconnect();
    return moved;
  };
}"""
_MOVED = """() => new Promise(done => {
  requestAnimationFrame(() => requestAnimationFrame(() => done(window.moved())));
})"""
# Whoever uses a keyboard or a screen reader is told these by name.
_NAMED = frozenset(
    {
        *("button", "checkbox", "combobox", "link", "menuitem", "option", "radio", "searchbox"),
        *("slider", "spinbutton", "switch", "tab", "textbox", "tree", "treeitem", "table"),
        *("dialog", "form", "region"),
    }
)


def titled(within: Page | Locator, title: str) -> Locator:
    """The titles of rows that say just that, in how many parts ever."""
    return within.locator(".bp-title", has_text=re.compile(f"^{re.escape(title)}$"))


def faint_words(page: Page, roots: str = "body") -> list[str]:
    """Words in these elements whose contrast with what is behind them is below WCAG's AA."""
    return page.evaluate(_FAINT_WORDS, roots)


def wear(page: Page, theme: str) -> None:
    """Have JupyterLab light or dark."""
    execute = "name => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})"
    page.evaluate(execute, f"JupyterLab {theme}")
    is_light = str(theme == "Light").lower()
    page.locator(f"body[data-jp-theme-light='{is_light}']").wait_for(state="attached")
    page.locator("#jupyterlab-splash").wait_for(state="detached")


def faint_in_either_theme(page: Page, roots: str) -> list[str]:
    """The same in JupyterLab's dark and in its light theme, which it has in the end."""
    found = list[str]()
    for theme in ("Dark", "Light"):
        wear(page, theme)
        found += [f"{theme}: {words}" for words in faint_words(page, roots)]
    return found


def nameless(page: Page, *roots: str) -> list[str]:
    """Controls in these elements that have no name, as Chromium tells those who cannot see."""
    asked: Any = page.context.new_cdp_session(page)
    found = list[str]()
    for root in roots:
        script = {"expression": f"document.querySelector({root!r})"}
        element = asked.send("Runtime.evaluate", script)["result"]["objectId"]
        nodes: list[Any] = asked.send("Accessibility.queryAXTree", {"objectId": element})["nodes"]
        heard = [node for node in nodes if not node["ignored"]]
        assert heard, f"nothing of {root} is told"
        for node in heard:
            role, name = node["role"]["value"], node.get("name", {}).get("value", "")
            if role in _NAMED and not name.strip():
                found.append(f"{root}: {role}")
    asked.detach()
    return found


@contextmanager
def shifts(page: Page, roots: str) -> Generator[list[str]]:
    """What moves in these elements meanwhile that nobody touched; told on leaving."""
    found = list[str]()
    page.evaluate(_WATCH_SHIFTS, roots)
    yield found
    found += page.evaluate(_MOVED)
