"""The page in a real browser: the summary, the graph, search, and the chain of causes of an op."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.reports.rendering.browser import Browser, headless, needs_chromium
from tests.reports.samples import many, plan, sample

from mixdown.core import Policy
from mixdown.reports import Report
from mixdown.reports.model import GraphReport, OpRow, SiteRow
from mixdown.reports.rendering.page import page

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_chromium
ENTER, ESCAPE, DOWN, RIGHT, LEFT, HOME = "\ue007", "\ue00c", "\ue015", "\ue014", "\ue012", "\ue011"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with headless() as window:
        yield window


def number(text: str) -> int:
    return int(text.replace(",", ""))


def search(browser: Browser, words: str) -> None:
    browser.script("document.getElementById('search').value = ''")
    browser.press("/", words)


def chain(browser: Browser) -> list[str]:
    """The chain on the page, in the words of `Plan.why`."""
    steps = browser.script("""
        return [...document.querySelectorAll("#chain > li:not(.fold)")].map((step) => {
            const [name, dtype] = step.querySelector(".step-head").children;
            const why = step.querySelector(".step-why");
            return [name, why.querySelector(".muted"), dtype, why].map((each) => each.textContent);
        })""")
    return [f"{name} ({kind[:-3]}) is {dtype}: {why.removeprefix(kind)}" for name, kind, dtype, why in steps]


def causes(name: str) -> list[list[str]]:
    """What the planner itself says, one list a site."""
    chains: list[list[str]] = []
    for line in plan().why(name).replace("`", "").splitlines():
        if not line.startswith(" "):
            chains.append([])
        chains[-1].append(line.strip())
    return chains


def test_page_loads_without_a_complaint_or_a_request(browser: Browser) -> None:
    browser.open(page(sample(), sample()))
    for part in ("casts", "scale", "advice", "compare", "details", "graph"):
        browser.click(f"#tab-{part}")
    assert browser.complaints() == []
    assert browser.requested() == [browser.driver.current_url]


def test_summary_has_the_numbers_of_the_report(browser: Browser) -> None:
    report = sample()
    browser.open(page(report))
    graphs = report.graphs
    assert browser.text("#title") == report.title
    effort = graphs[0].effort
    assert browser.text("#summary .lead") == "100 % of the matrix arithmetic runs in float166 MFLOP of 6 MFLOP"
    assert browser.text("#summary-bytes") == f"{effort.bytes / effort.float32_bytes:.2f} \N{MULTIPLICATION SIGN}"
    assert tile(browser, "predicted") == [
        "Predicted for A100",
        "2.00 \N{MULTIPLICATION SIGN} as fast",
        "2 ms, float32 4 ms; a guess",
    ]
    assert tile(browser, "ops") == [
        "Ops in 16 bits",
        str(len(graphs[0].low_ops)),
        f"of {len(graphs[0].ops)} float32 ops",
    ]
    assert number(browser.text("#summary-casts")) == sum(len(graph.casts) for graph in graphs)
    assert tile(browser, "casts")[2] == "moving 6.1 MB, 1 of unknown shape"
    assert number(browser.text("#summary-skipped")) == 3
    assert number(browser.text("#summary-scale")) == 16384
    assert browser.text("#summary-policy") == "float16"
    assert browser.text("#summary-versions") == "mixdown 1.2.3"
    assert browser.texts("#summary .warning") == list(report.warnings)
    assert browser.texts("#summary p.muted[role=note]") == list(report.notes)


def tile(browser: Browser, name: str) -> list[str]:
    """Title, value and note of a tile of the summary."""
    parts = "[...document.getElementById(arguments[0]).closest('.tile').querySelectorAll('dt, span')]"
    return list(browser.script(f"return {parts}.map((part) => part.textContent)", f"summary-{name}"))


def test_casts_of_a_compiled_graph_are_counted_before_xla_fuses_them(browser: Browser) -> None:
    report = sample()
    browser.open(page(replace(report, graphs=(replace(report.graphs[0], is_compiled=True),))))
    assert tile(browser, "casts")[2] == "before XLA fuses them"
    browser.click("#tab-casts")
    assert "XLA fuses most of them; if it fused none, they would move 6.1 MB per run" in browser.text("#panel-casts p")


def test_arithmetic_that_is_not_all_16_bit_is_told_in_per_cent(browser: Browser) -> None:
    browser.open(page(sample(Policy().with_keep(name="head/MatMul"))))
    assert browser.text("#summary-share") == "67 %"


def test_the_page_opens_with_the_graph_that_has_the_most_work(browser: Browser) -> None:
    report = sample()
    browser.open(page(replace(report, graphs=report.graphs[::-1])))
    assert browser.text("#summary-share") == "100 %"
    assert "encoder" in browser.texts("#tree .row-name")


def training(*names: str) -> Report:
    """A model `net` of two layers inside a function, its gradients, and an optimizer of two variables."""
    site = SiteRow("T", "float16", "allow", "seed", "")
    rows = [
        *((f"net/{layer}/MatMul", "MatMul", 100, 10) for layer in ("one", "two")),
        *((f"net/{layer}/BiasAdd", "BiasAdd", 0, 5) for layer in ("one", "two")),
        *((f"gradient_tape/net/{layer}/MatMul", "MatMul", 200, 10) for layer in ("one", "two")),
        ("adam/Sub", "Sub", 0, 500),
        ("adam/AssignSubVariableOp", "AssignSubVariableOp", 0, 500),
        *((name, "Mul", 0, 1) for name in names),
    ]
    ops = tuple(OpRow(name, kind, "step", (site,), flops=flops, bytes=moved) for name, kind, flops, moved in rows)
    return Report("training", graphs=(GraphReport("g", "function", "float16", True, "", ops=ops),))  # noqa: FBT003 - GraphReport names it


def test_the_tree_starts_open_at_the_layers_and_the_optimizer_is_one_closed_block(browser: Browser) -> None:
    browser.open(page(training("a", "b")))
    rows = browser.texts("#tree .row-name")
    assert rows[:4] == ["ƒ step", "net", "one", "two"]
    assert rows[-1] == "adam"
    browser.click("#tree .row")  # zooms in to the function
    click_box(browser, "adam")
    assert browser.text(".crumbs [aria-current]") == "adam"  # no op was hit: the block is one cell


def test_the_area_of_the_map_is_bytes_or_arithmetic(browser: Browser) -> None:
    browser.open(page(training()))
    tree = browser.script(
        "return [...document.querySelectorAll('#tree .row')].find((row) => /step/.test(row.textContent))"
    )
    tree.click()
    browser.settle()
    assert browser.texts(".map-name")[0] == "adam"
    browser.click("input[name=area][value=flops] + span")
    assert browser.texts(".map-name") == ["gradient_tape/net", "net"]  # the optimizer multiplies no matrices


def test_search_lists_the_forward_pass_before_the_gradients(browser: Browser) -> None:
    browser.open(page(training()))
    search(browser, "matmul")
    found = browser.texts("#search-results .name")
    assert [name.startswith("gradient_tape") for name in found] == [False, False, True, True]


def test_reasons_that_a_user_can_change_come_first(browser: Browser) -> None:
    browser.open(page(sample()))
    reasons = browser.texts("#op-panel .bar-label")
    assert reasons.index("it follows a denied op (Exp)") < reasons.index("Lgamma is on no list")


def test_kinds_in_16_bits_are_listed_by_the_bytes_they_move(browser: Browser) -> None:
    browser.open(page(training()))
    assert browser.texts("#op-panel .bar-label") == ["AssignSubVariableOp", "Sub", "MatMul", "BiasAdd"]
    assert browser.texts("#op-panel .bar-count") == ["500 B, 1", "500 B, 1", "40 B, 4", "10 B, 2"]


def test_on_a_phone_no_tile_leaves_a_hole_and_no_amount_is_broken(browser: Browser) -> None:
    browser.open(page(training()), width=390, height=844)
    rows = browser.script(
        "const found = {};"
        "for (const tile of document.querySelectorAll('.tiles > *')) {"
        "  const { top, width } = tile.getBoundingClientRect(); found[top] = (found[top] || 0) + width; }"
        "return Object.values(found)"
    )
    assert max(rows) - min(rows) < 20  # the gap between two tiles
    lines = browser.script(
        "return [...document.querySelectorAll('.bar-count')].map((each) => each.getClientRects().length)"
    )
    assert set(lines) == {1}


def test_scopes_are_collapsed_first_and_open_on_a_click(browser: Browser) -> None:
    browser.open(page(sample()))
    closed = browser.texts("#tree .row-name")
    assert "encoder" in closed
    assert "query" not in closed
    browser.click("#tree .row")  # bq, an op of the outermost scope
    encoder = next(row for row in browser.driver.find_elements("css selector", "#tree .row") if "encoder" in row.text)
    encoder.click()
    browser.settle()
    assert {"attention", "out", "query"} <= set(browser.texts("#tree .row-name"))


@pytest.mark.parametrize("name", [op.name for op in plan().graph.ops])
def test_the_chain_of_every_op_is_what_the_planner_says(browser: Browser, name: str) -> None:
    if browser.driver.title != "a training run · mixdown report":
        browser.open(page(sample()))
    search(browser, name)
    browser.press(ENTER)
    assert browser.text("#op-name") == name
    assert chain(browser) == causes(name)[0]


def test_another_site_of_an_op_shows_its_own_chain(browser: Browser) -> None:
    browser.open(page(sample()))
    search(browser, "norm/Fused")
    browser.press(ENTER)
    assert browser.text("#op-dtype") == "float16"
    browser.click("#site-picker option:nth-child(2)")
    assert browser.text("#op-dtype") == "float32"
    assert chain(browser) == causes("norm/Fused")[1]


def test_the_path_of_causes_is_drawn_and_marked(browser: Browser) -> None:
    browser.open(page(sample()))
    search(browser, "encoder/out/Sigmoid")
    browser.press(ENTER)
    assert len(causes("encoder/out/Sigmoid")[0]) == 4
    assert browser.script("return document.querySelectorAll('.trail .link').length") == 3
    assert browser.script("return document.querySelectorAll('.trail .stop').length") == 4
    assert {"encoder", "attention"} <= set(browser.texts("#tree .on-path .row-name"))


def test_panel_tells_kind_category_stage_and_neighbours(browser: Browser) -> None:
    browser.open(page(sample()))
    search(browser, "encoder/out/Sigmoid")
    browser.press(ENTER)
    facts = {name: browser.text(f"#fact-{name}") for name in ("kind", "category", "decided-by", "because")}
    assert facts == {
        "kind": "Sigmoid",
        "category": " infer",
        "decided-by": "stage taint",
        "because": "it follows a denied op, through encoder/attention/Relu",
    }
    assert browser.texts("#op-inputs .op-link") == ["encoder/attention/Relu"]
    assert browser.texts("#op-outputs .op-link") == ["encoder/out/Lgamma", "encoder/out/MatMul"]


def test_links_lead_from_op_to_op_and_back(browser: Browser) -> None:
    browser.open(page(sample()))
    search(browser, "encoder/out/Sigmoid")
    browser.press(ENTER)
    browser.click("#chain li:last-child .op-link")
    assert browser.text("#op-name") == "encoder/attention/Exp"
    browser.driver.back()
    browser.settle()
    assert browser.text("#op-name") == "encoder/out/Sigmoid"


def click_box(browser: Browser, name: str) -> None:
    """Click into the middle of a box of the map."""
    from selenium.webdriver import ActionChains  # noqa: PLC0415 - selenium is optional

    middle = browser.script(
        """
        const named = (each) => (each.querySelector(".map-name") || each).textContent === arguments[0];
        const box = [...document.querySelectorAll(".map-button")].find(named);
        box.scrollIntoView({block: "center"});
        const {left, top, width, height} = box.getBoundingClientRect();
        return [Math.round(left + width / 2), Math.round(top + height / 2)]""",
        name,
    )
    ActionChains(browser.driver).move_by_offset(*middle).click().perform()
    ActionChains(browser.driver).move_by_offset(-middle[0], -middle[1]).perform()
    browser.settle()


def test_a_click_on_a_cell_of_the_map_opens_its_op(browser: Browser) -> None:
    browser.open(page(sample()))
    click_box(browser, "wq")
    assert browser.text("#op-name") == "wq"


def test_search_finds_every_op_with_all_words_as_one_types(browser: Browser) -> None:
    browser.open(page(sample()))
    names = [op.name for op in plan().graph.ops]
    search(browser, "matmul")
    assert sorted(browser.texts("#search-results .name")) == sorted(name for name in names if "MatMul" in name)
    browser.press(" enc")
    assert sorted(browser.texts("#search-results .name")) == ["encoder/out/MatMul", "encoder/query/MatMul"]
    browser.press(" nothing")
    assert browser.text("#search-count") == "No op found"


def test_colours_tell_precision_or_category(browser: Browser) -> None:
    browser.open(page(sample()))
    low, full = len(sample().graphs[0].low_ops), len(sample().graphs[0].ops)
    assert browser.texts("#legend li") == [f"float16 {low - 1}", "both 1", f"float32 {full - low}"]
    before = browser.script("return document.querySelector('.map canvas').toDataURL()")
    browser.click(".choice:nth-of-type(2)")
    assert [text.split()[0] for text in browser.texts("#legend li")] == ["allow", "infer", "clear", "deny", "barrier"]
    assert browser.script("return document.querySelector('.map canvas').toDataURL()") != before


def test_all_of_it_works_from_the_keyboard(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.tab_to("#tree")
    browser.press(HOME, DOWN, RIGHT, DOWN, RIGHT, DOWN, ENTER)
    assert browser.text("#op-name") == "encoder/attention/Exp"
    browser.press(LEFT, LEFT)
    assert "attention" in browser.texts("#tree .row-name")
    assert "Exp" not in browser.texts("#tree .row-name")
    browser.tab_to(".map-button")
    browser.press(ENTER)
    assert browser.text(".crumbs [aria-current]") == "encoder"
    browser.press(ESCAPE)
    assert browser.text(".crumbs [aria-current]") == "whole graph"


def test_tabs_are_walked_with_the_arrow_keys(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.tab_to("[role=tab]")
    browser.press(RIGHT)
    assert browser.one("#tab-casts").get_attribute("aria-selected") == "true"
    assert browser.one("#panel-casts").is_displayed()
    assert not browser.one("#panel-graph").is_displayed()


def test_focus_is_always_visible(browser: Browser) -> None:
    browser.open(page(sample()))
    outlines: dict[str, str] = {}
    while (style := focused(browser))[0] not in {*outlines, "BODY"}:
        outlines[style[0]] = style[1]
    assert len(outlines) >= 7
    assert set(outlines.values()) == {"solid"}


def focused(browser: Browser) -> list[str]:
    """What has the focus after one more Tab, and the outline that shows it."""
    browser.press("\ue004")
    found = browser.script("""
        const here = document.activeElement;
        const shown = here.type === "radio" ? here.nextSibling : here;
        return [here.tagName + here.id + here.className, getComputedStyle(shown).outlineStyle]""")
    return list(found)


def test_another_graph_can_be_picked(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.click("#graph-picker option:nth-child(2)")
    assert browser.text("#panel-graph .warning") == "This function was left as it was: it runs on a TPU."
    browser.click("#tab-details")
    assert [row[0] for row in browser.rows("graphs")] == ["train_step", "serve"]
    browser.click("table[data-table=graphs] .op-link")
    assert "encoder" in browser.texts("#tree .row-name")


def test_picker_is_hidden_where_there_is_one_graph(browser: Browser) -> None:
    browser.open(page(many(3)))
    assert not browser.one("#graph-picker").is_displayed()


def test_a_report_of_nothing_says_so(browser: Browser) -> None:
    browser.open(page(Report("empty")))
    assert browser.text("#panel-graph") == "This report holds no graph."
    assert browser.complaints() == []


def test_thirteen_thousand_ops_can_be_searched_and_opened(browser: Browser) -> None:
    browser.open(page(many(13_000)))
    assert tile(browser, "ops")[1] == "13,000"
    search(browser, "block_1299 dense_7")
    assert browser.texts("#search-results .name") == ["model/block_1299/dense_7/MatMul"]
    browser.press(ENTER)
    assert browser.text("#op-name") == "model/block_1299/dense_7/MatMul"
    assert browser.texts("#op-inputs .op-link") == ["model/block_1299/dense_6/MatMul"]
    assert len(browser.texts("#tree .row")) < 100  # of the 1,300 that are open: only rows in view exist
    assert browser.complaints() == []
