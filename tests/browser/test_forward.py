"""A page that a machine serves, in a real browser on the host."""

import pytest
from playwright.sync_api import Browser, expect
from tests.conftest import StartKernel
from tests.support.guest_server import SERVER, forward
from tests.support.web_page import PATIENCE_MS

pytestmark = [pytest.mark.vm, pytest.mark.browser]


def test_a_page_and_its_websocket_come_through_a_forward(
    browser: Browser, start_kernel: StartKernel
) -> None:
    with start_kernel("forwarded page") as kernel:
        kernel.run(SERVER)
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{forward(kernel)['url']}/talk")
        expect(page).to_have_title("from the machine")
        expect(page.locator("#said")).to_have_text("HELLO", timeout=PATIENCE_MS)
        page.close()
