"""The tree of a session in a real browser: read by eye, by keys and by machine, in both themes."""

import json
import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from tests.support.tree_page import TreePage, tree_page
from tests.support.web_page import chromium, pictures

pytestmark = pytest.mark.browser

NARROW = "240px"
WIDE = "960px"


@pytest.fixture(scope="module")
def drawn_by() -> Generator[Browser]:
    """Chromium; no home and no machine is wanted here."""
    with chromium() as started:
        yield started


@pytest.fixture
def tree(drawn_by: Browser) -> Generator[TreePage]:
    """A page for one tree."""
    with tree_page(drawn_by) as page:
        yield page


@pytest.mark.parametrize(
    ("count", "width", "theme"),
    [(5, WIDE, "light"), (5, NARROW, "dark"), (40, NARROW, "light"), (300, WIDE, "dark")],
)
def test_all_words_can_be_read_and_nothing_is_cut_off(
    tree: TreePage, tmp_path: Path, count: int, width: str, theme: str
) -> None:
    tree.open(count, theme=theme, width=width, height="640px", place="panel")
    if count == 5:
        tree.evaluate(
            "demo.show({under_way: [{op: 'fork', branch: 'boost', since: new Date().toJSON()}]})"
        )
    tree.page.screenshot(path=pictures(tmp_path) / f"tree-{count}-{theme}-{width}.png")
    assert tree.faint_words() == []
    assert tree.evaluate(
        "[...document.querySelectorAll('.bp-lineage, .bp-scroll, .bp-desk')]"
        ".every(each => each.scrollWidth <= each.clientWidth + 1)"
    )
    here = tree.page.locator("[aria-current=true]")
    expect(here).to_be_in_viewport()
    expect(here.locator(".bp-here-word")).to_have_text("you are here")


def test_nothing_moves_while_figures_change(tree: TreePage) -> None:
    tree.open(40, width=WIDE, place="panel")
    tree.settle()
    tree.evaluate("window.shifts.length = 0")
    for _ in range(10):
        tree.evaluate("demo.update(1)")
        tree.settle()
    tree.evaluate(
        "demo.show({under_way: [{op: 'keep', branch: 'main', since: new Date().toJSON()}]})"
    )
    expect(tree.page.locator(".bp-clock")).to_have_text(re.compile("[1-9]"))
    tree.evaluate("demo.show({under_way: []})")
    assert tree.shifts() == []


def test_keys_alone_lead_everywhere(tree: TreePage) -> None:
    tree.open(5, width=WIDE)
    keys = tree.page.keyboard
    tree.row("b:boost").focus()
    keys.press("Home")
    keys.press("ArrowRight")
    assert tree.focused() == "c:k1"
    keys.press("Enter")
    assert tree.evaluate("document.activeElement.textContent") == "Roll back…"
    keys.press("Escape")
    assert tree.focused() == "c:k1"
    keys.press("Enter")
    keys.press("r")  # roll back has it already, rename is the next
    assert tree.evaluate("document.activeElement.textContent") == "Rename…"
    keys.press("Enter")
    keys.type("all loaded")
    keys.press("Enter")
    expect(tree.page.locator(".bp-message")).to_contain_text("It is all loaded now.")
    assert tree.focused() == "c:k1"
    assert tree.evaluate("demo.asked") == [
        {"op": "annotate", "checkpoint": "k1", "label": "all loaded"}
    ]
    keys.press("/")
    keys.type("parked")
    expect(tree.page.locator(".bp-count")).to_have_text("3 of 12")
    keys.press("Enter")
    expect(tree.page.locator(".bp-row.bp-found.bp-chosen")).to_have_count(1)
    keys.press("Escape")
    expect(tree.page.locator(".bp-dimmed")).to_have_count(0)


def test_a_rollback_shows_what_it_undoes_and_runs_nothing_of_that(
    tree: TreePage, tmp_path: Path
) -> None:
    tree.open(5, width=WIDE)
    tree.row("c:k1").click()
    tree.do("Roll back…")
    expect(tree.page.locator(".bp-told")).to_contain_text("would not be undone")
    expect(tree.page.locator(".bp-told img, .bp-told script")).to_have_count(0)
    assert tree.evaluate("window.harmed") is None
    tree.evaluate(
        "Object.assign(demo.answers, {refusal: 'a cell runs', hint: 'interrupt it first'})"
    )
    tree.page.locator(".bp-go").click()
    expect(tree.page.locator(".bp-sheet .bp-refusal")).to_contain_text("interrupt it first")
    tree.page.screenshot(path=pictures(tmp_path) / "tree-rollback-refused.png")
    assert tree.faint_words() == []
    tree.evaluate("demo.answers.refusal = ''")
    tree.page.locator(".bp-go").dblclick()
    expect(tree.page.locator(".bp-message")).to_contain_text("Back at loaded in 110 ms.")
    acted = [each for each in tree.evaluate("demo.asked") if each["op"] == "rollback"]
    assert acted == 2 * [{"op": "rollback", "target": "k1", "branch": "boost", "safety": True}]


def test_a_rollback_that_cannot_be_foreseen_is_done_all_the_same_and_without_a_safety_if_so_wished(
    tree: TreePage,
) -> None:
    tree.open(5, theme="dark", width=WIDE)
    tree.evaluate("demo.answers.dumb = 'the machine does not answer'")
    tree.row("c:k1").click()
    tree.do("Roll back…")
    expect(tree.page.locator(".bp-sheet .bp-refusal")).to_contain_text("does not answer")
    tree.page.get_by_label("Save what is left first").uncheck()
    assert tree.faint_words() == []
    tree.page.get_by_role("button", name="Roll back without a preview").click()
    expect(tree.page.locator(".bp-message")).to_contain_text("Back at loaded")
    assert tree.evaluate("demo.asked.at(-1)") == {
        "op": "rollback",
        "target": "k1",
        "branch": "boost",
        "safety": False,
    }


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_question_of_the_tree_can_be_read_and_called_off(tree: TreePage, theme: str) -> None:
    tree.open(5, theme=theme, width=WIDE, place="panel")
    asked = {
        "c:k1": {"Fork…": "Fork", "Rename…": "Rename", "Note…": "Keep note", "Diff with now…": ""},
        "b:deep": {"Checkpoint…": "Save", "Drop…": "Drop"},
    }
    sheet = tree.page.locator(".bp-sheet")
    for key, questions in asked.items():
        tree.row(key).click()
        for deed, goes in questions.items():
            tree.do(deed)
            if goes:
                expect(sheet.locator(".bp-go")).to_have_text(goes)
            else:
                expect(sheet.locator(".bp-told")).to_be_visible()
            assert tree.faint_words() == []
            sheet.get_by_role("button", name="Cancel" if goes else "Close").click()
            expect(sheet).to_have_count(0)
    assert [it["op"] for it in tree.evaluate("demo.asked")] == ["diff"]


def test_in_a_narrow_panel_questions_menus_and_what_hovers_are_seen_whole(
    tree: TreePage, tmp_path: Path
) -> None:
    tree.open(5, theme="dark", width=NARROW, height="640px", place="panel")
    tree.row("c:k1").click()
    tree.do("Roll back…")
    expect(tree.page.locator(".bp-told")).to_contain_text("would not be undone")
    expect(tree.page.locator(".bp-go")).to_be_in_viewport(ratio=1)
    tree.page.screenshot(path=pictures(tmp_path) / "tree-narrow-rollback.png")
    tree.page.keyboard.press("Escape")
    tree.row("b:tiny").scroll_into_view_if_needed()
    tree.settle()
    tree.row("b:tiny").hover()
    hovering = tree.page.locator(".bp-hover")
    expect(hovering).to_contain_text("tokens")
    expect(hovering).to_be_in_viewport(ratio=1)
    tree.row("b:tiny").click(button="right")
    menu = tree.page.get_by_role("menu")
    expect(menu).to_be_in_viewport(ratio=1)
    expect(hovering).to_be_hidden()
    tree.page.screenshot(path=pictures(tmp_path) / "tree-menu.png")
    assert tree.faint_words() == []
    tree.page.mouse.click(600, 600)
    expect(menu).to_be_hidden()


def test_what_someone_looks_at_stays_where_it_is_while_the_session_grows(tree: TreePage) -> None:
    tree.open(300, width=WIDE)
    tree.evaluate("document.querySelector('.bp-scroll').scrollTop = 1400")
    tree.settle()
    tree.evaluate("demo.update(20); demo.grow(2)")
    tree.settle()
    assert tree.evaluate("document.querySelector('.bp-scroll').scrollTop") == 1400
    assert tree.shifts() == []


def test_updates_of_three_hundred_nodes_make_none_anew(tree: TreePage, tmp_path: Path) -> None:
    tree.open(300, width=WIDE)
    tree.evaluate("window.before = [...document.querySelectorAll('.bp-lineage *')]")
    first_ms, update_ms = tree.evaluate("[demo.first_ms, demo.update(50)]")
    assert tree.evaluate(
        "window.before.length === document.querySelectorAll('.bp-lineage *').length"
        " && window.before.every(each => each.isConnected)"
    )
    # For docs/benchmarks.md: what is measured here is written down, and judged by nobody.
    times = {"first_ms": first_ms, "update_ms": sorted(update_ms)}
    (pictures(tmp_path) / "tree-300-times.json").write_text(json.dumps(times))


def test_a_thousand_checkpoints_fold_and_are_found(tree: TreePage, tmp_path: Path) -> None:
    tree.open(1000, width=WIDE)
    rows = tree.page.locator(".bp-row")
    before = rows.count()
    tree.page.get_by_role("button", name="Fold", exact=True).click()
    assert rows.count() < before / 3
    tree.page.get_by_role("searchbox").fill("step-9 long fit")
    expect(tree.page.locator(".bp-count")).to_contain_text("of")
    expect(tree.page.locator(".bp-found").first).to_contain_text("step-9")
    tree.page.screenshot(path=pictures(tmp_path) / "tree-1000-search.png")
    assert tree.faint_words() == []


def test_every_tool_above_the_tree_does_what_it_says(tree: TreePage) -> None:
    tree.open(40, width=WIDE, height="400px", place="panel")
    rows, desk = tree.page.locator(".bp-row"), tree.page.locator(".bp-desk")
    tools = tree.page.locator(".bp-tools")
    tools.get_by_role("button", name="Fold", exact=True).click()
    folded = rows.count()
    tools.get_by_role("button", name="Unfold").click()
    assert rows.count() > folded
    height = "document.querySelector('.bp-row').offsetHeight"
    normal = tree.evaluate(height)
    tools.get_by_role("button", name="Size of rows: normal").click()
    expect(tools.get_by_role("button", name="Size of rows: large")).to_be_visible()
    assert tree.evaluate(height) > normal
    tools.get_by_role("button", name="Details").click()
    expect(desk).to_be_hidden()
    tools.get_by_role("button", name="Details").click()
    expect(desk).to_be_visible()
    tree.evaluate("document.querySelector('.bp-scroll').scrollTop = 0")
    tools.get_by_role("button", name="Here").click()
    here = tree.page.locator("[aria-current=true]")
    expect(here).to_be_in_viewport(ratio=1)
    expect(here).to_be_focused()


def test_what_was_said_is_dismissed_and_what_was_asked_is_called_off(tree: TreePage) -> None:
    tree.open(5, width=WIDE)
    tree.row("c:k1").click()
    tree.do("Pin")
    expect(tree.page.locator(".bp-message")).to_contain_text("Pinned")
    tree.page.get_by_role("button", name="Dismiss").click()
    expect(tree.page.locator(".bp-message")).to_be_hidden()
    tree.do("Fork…")
    tree.page.locator(".bp-sheet").get_by_role("button", name="Cancel").click()
    expect(tree.page.locator(".bp-sheet")).to_have_count(0)
    assert [each["op"] for each in tree.evaluate("demo.asked")] == ["pin"]


def test_the_table_is_a_table(tree: TreePage, tmp_path: Path) -> None:
    tree.open(5, width=WIDE)
    tree.page.get_by_role("button", name="Table").click()
    table = tree.page.get_by_role("table", name="Branches, in order of making")
    expect(table.get_by_role("row")).to_have_count(8)
    expect(table.get_by_role("columnheader", name="Tokens out")).to_be_visible()
    tree.page.screenshot(path=pictures(tmp_path) / "tree-table.png")
    assert tree.faint_words() == []


def test_a_page_that_names_no_theme_is_as_its_reader_prefers(tree: TreePage) -> None:
    tree.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    tree.open(5, theme="none", width=WIDE)
    paper = "getComputedStyle(document.querySelector('.bp-lineage')).backgroundColor"
    assert tree.evaluate(paper) == "rgb(27, 27, 29)"
    tree.page.emulate_media(color_scheme="light")
    assert tree.evaluate(paper) == "rgb(255, 255, 255)"


def test_nothing_turns_for_who_wants_no_motion(tree: TreePage) -> None:
    tree.page.emulate_media(reduced_motion="reduce")
    tree.open(5, width=WIDE)
    tree.evaluate(
        "demo.show({under_way: [{op: 'fork', branch: 'boost', since: new Date().toJSON()}]})"
    )
    assert (
        tree.evaluate(
            "getComputedStyle(document.querySelector('.bp-spinner'), '::before').animationName"
        )
        == "none"
    )


def test_rows_that_were_out_of_the_page_are_where_they_were(tree: TreePage) -> None:
    tree.open(300, width=WIDE)
    scrolled = "document.querySelector('.bp-scroll').scrollTop"
    tree.evaluate(f"{scrolled} = 1400")
    tree.settle()
    tree.evaluate("window.kept = document.getElementById('host'); kept.remove()")
    tree.settle()
    tree.evaluate("document.body.append(kept)")
    tree.settle()
    assert tree.evaluate(scrolled) == 1400


def test_where_you_are_stays_in_sight_as_the_session_grows_above_it(tree: TreePage) -> None:
    tree.open(40, width=WIDE, height="400px", place="panel")
    here = tree.page.locator("[aria-current=true]")
    expect(here).to_be_in_viewport()
    for _ in range(6):
        tree.evaluate("demo.grow(1)")
        tree.settle()
    expect(here).to_be_in_viewport(ratio=1)
