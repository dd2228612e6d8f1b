"""A dashboard in three forks, each with a design of its own; one is broken and goes back.

What is shown before and after is compared pixel by pixel: equal, but for what is animated.
"""

import io
import math
from collections.abc import Generator, Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Error, Page, ViewportSize
from tests.support.dashboard import BREAK, DASHBOARD, PORT, SITE
from tests.support.guest_server import forward
from tests.support.live_kernel import LiveKernel
from tests.support.web_page import PATIENCE_MS, pictures

pytestmark = [pytest.mark.vm, pytest.mark.browser]

DESIGNS = ("nordic", "terminal", "chart")
SIZE = ViewportSize(width=1100, height=720)
ATTEMPTS = 40

Pixels = NDArray[np.uint8]


class Dashboard:
    """What one branch's machine shows, through a forward of its own."""

    def __init__(self, page: Page, url: str, folder: Path) -> None:
        self._page, self._url, self._folder = page, url, folder

    def look(self, name: str) -> Pixels:
        """Load it anew; what is to be seen, which is kept under that name as well."""
        self._page.goto(self._url)
        self._page.evaluate("document.fonts.ready")
        taken = self.glance()
        Image.fromarray(taken).save(self._folder / f"designs-{name}.png")
        return taken

    def glance(self) -> Pixels:
        """What is to be seen just now."""
        return np.asarray(Image.open(io.BytesIO(self._page.screenshot())).convert("RGB"))

    def animated(self) -> tuple[slice, slice]:
        """The rows and columns of what moves."""
        # What is around the dot: the dot itself is of another size at each moment.
        box = self._page.locator("#dot").bounding_box()
        assert box is not None
        rows = slice(math.floor(box["y"]), math.ceil(box["y"] + box["height"]))
        return rows, slice(math.floor(box["x"]), math.ceil(box["x"] + box["width"]))

    def text(self, where: str) -> str:
        """What is written there."""
        return self._page.locator(where).inner_text()


def differs(one: Pixels, other: Pixels) -> NDArray[np.bool_]:
    """Where two pictures differ."""
    assert one.shape == other.shape
    return (one != other).any(axis=2)


def differs_beside(one: Pixels, other: Pixels, animated: tuple[slice, slice]) -> int:
    """How many pixels differ that are not animated."""
    difference = differs(one, other)
    difference[animated] = False
    return int(difference.sum())


@pytest.fixture(scope="module")
def kernel(shared_kernel: LiveKernel) -> LiveKernel:
    """One with a dashboard that has taken three orders, and a fork for each design."""
    shared_kernel.run(DASHBOARD)
    shared_kernel.run("%checkpoint dashboard")
    shared_kernel.run(f"%fork {len(DESIGNS)} --names {','.join(DESIGNS)}")
    return shared_kernel


@pytest.fixture(scope="module")
def boards(
    kernel: LiveKernel, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Mapping[str, Dashboard]]:
    """What each branch shows, by its name."""
    folder = pictures(tmp_path_factory.mktemp("pictures"))
    context = browser.new_context(viewport=SIZE)
    context.set_default_timeout(PATIENCE_MS)
    yield {
        name: Dashboard(
            context.new_page(), forward(kernel, f"--branch {name}", port=PORT)["url"], folder
        )
        for name in ("main", *DESIGNS)
    }
    context.close()


def test_forks_show_what_their_parent_did_and_each_its_own_design_then(
    kernel: LiveKernel, boards: Mapping[str, Dashboard]
) -> None:
    original = boards["main"].look("main")
    animated = boards["main"].animated()
    pids = kernel.values("serving", DESIGNS)
    assert set(pids.values()) == {kernel.value("serving")}
    for name in DESIGNS:
        assert differs_beside(original, boards[name].look(f"{name}-before"), animated) == 0
    kernel.in_branches("tell(**DESIGNS[branch.name])", DESIGNS)
    shown = [original, *(boards[name].look(name) for name in DESIGNS)]
    for at, one in enumerate(shown):
        for other in shown[at + 1 :]:
            assert differs_beside(one, other, animated) > 5000
    assert differs_beside(original, boards["main"].look("main-after"), animated) == 0


def test_a_fork_that_was_broken_shows_after_a_rollback_what_it_did_to_the_pixel(
    kernel: LiveKernel, boards: Mapping[str, Dashboard]
) -> None:
    board = boards["terminal"]
    kernel.run("%switch terminal")
    kernel.run("tell(**DESIGNS['terminal'], orders=39)\n%checkpoint painted")
    serving = kernel.value("serving")
    before = board.look("terminal-saved")
    animated = board.animated()
    assert board.text("#orders") == "42"
    kernel.run(BREAK)
    assert kernel.value(f"os.path.exists({SITE!r})") == "False"
    with pytest.raises(Error, match="net::ERR"):
        board.look("terminal-broken")
    kernel.run("%rollback painted")
    again = board.look("terminal-again")
    assert board.text("#orders") == "42"
    assert kernel.value("serving, os.kill(serving, 0)") == f"{serving} None"
    assert differs_beside(before, again, animated) == 0
    # What was left out of that does move: it is no place where anything would be overlooked.
    glances = (board.glance() for _ in range(ATTEMPTS))
    assert any(differs(again, glance)[animated].any() for glance in glances)
