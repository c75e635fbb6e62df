"""The page in a real browser: casts, loss scale, advice, comparison; hostile names; light and dark, wide and narrow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.reports.rendering.browser import Browser, headless, needs_chromium
from tests.reports.samples import SKIPS, sample

from mixdown.core import Policy
from mixdown.reports import Report
from mixdown.reports.compare import compare
from mixdown.reports.model import Advice, CastRow, GraphReport, OpRow, ScalerReport, SiteRow, Skip
from mixdown.reports.rendering.page import page
from mixdown.tuning.memory import Trial

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_chromium
HOSTILE = "</script><img src=x onerror=alert(1)><!--<script>alert(2)//&amp;'\"`${alert(3)}"
PARTS = ("graph", "casts", "scale", "advice", "compare", "details")

COLOURS = """
    const behind = (node) => {
        const colour = getComputedStyle(node).backgroundColor;
        return colour.startsWith("rgb(") || !node.parentElement ? colour : behind(node.parentElement);
    };
    const written = (node) => [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    const elsewhere = ".map-buttons, svg, script, option, [hidden], .skip-link"; // on no plain background, or unseen
    return [...document.querySelectorAll("body *")]
        .filter((node) => written(node) && node.checkVisibility() && !node.closest(elsewhere))
        .map((node) => [node.outerHTML.slice(0, 120), getComputedStyle(node).color, behind(node)]);"""
PAINTS = """
    const probe = document.body.appendChild(document.createElement("span"));
    const pairs = ["low", "full", "mixed", "allow", "infer", "clear", "deny", "barrier"].map((part) => {
        probe.className = `fill-${part}`;
        const {color, backgroundColor} = getComputedStyle(probe);
        return [part, color, backgroundColor];
    });
    probe.remove();
    return pairs;"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with headless() as window:
        yield window


def column(browser: Browser, table: str, index: int) -> list[str]:
    return [row[index] for row in browser.rows(table)]


def heading(table: str, index: int) -> str:
    return f"table[data-table={table}] th:nth-child({index}) button"


def test_casts_are_sorted_by_bytes_first_with_the_unknown_last(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.click("#tab-casts")
    casts = sample().graphs[0].casts
    falling = sorted(casts, key=lambda cast: -1 if cast.bytes is None else cast.bytes, reverse=True)
    assert column(browser, "casts", 0) == [cast.tensor for cast in falling]
    assert column(browser, "casts", 3) == ["6.0 MB", "90.0 KB", "1.2 KB", "600 B", "48 B", "0 B", "unknown"]


def test_casts_are_sorted_by_the_heading_that_is_pressed(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.click("#tab-casts")
    browser.click(heading("casts", 4))
    assert column(browser, "casts", 3)[:3] == ["unknown", "0 B", "48 B"]
    browser.click(heading("casts", 1))
    assert column(browser, "casts", 0) == sorted(cast.tensor for cast in sample().graphs[0].casts)
    browser.click(heading("casts", 3))
    directions = column(browser, "casts", 2)
    assert directions == sorted(directions)
    assert set(directions) == {"float16→float32", "float32→float16"}
    assert browser.one("table[data-table=casts] th:nth-child(3)").get_attribute("aria-sort") == "ascending"


def test_every_candidate_of_a_tuned_function_is_shown_and_what_was_kept(browser: Browser) -> None:
    trials = (Trial("float32", 24, 0.1, 1.0, 1.0, 1.0), Trial("float16 products only", 12, 0.083, 0.81, 0.83, 0.84))
    kept = "kept float16 products only: 0.83 of float32"
    browser.open(page(Report("r", graphs=(replace(sample().graphs[0], tuned=kept, trials=trials),))))
    browser.click("#tab-details")
    assert browser.text("#trials") == (
        f"Tuning: {kept}"
        "float32100 ms a call, 1.000 of float32 (95 % interval: 1.000 to 1.000; 24 calls)"
        "float16 products only83 ms a call, 0.830 of float32 (95 % interval: 0.810 to 0.840; 12 calls)"
    )


def test_a_cast_leads_to_the_op_it_stands_behind(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.click("#tab-casts")
    browser.click("table[data-table=casts] .op-link")
    assert browser.text("#op-name") == "encoder/query/MatMul"
    assert browser.one("#panel-graph").is_displayed()


def test_plot_marks_exactly_the_skipped_steps(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.click("#tab-scale")
    marks = browser.script(
        "return [...document.querySelectorAll('.scale-plot .skip')].map((each) => each.dataset.step)"
    )
    assert marks == [str(skip.step) for skip in SKIPS]
    assert column(browser, "skips", 0) == ["2", "3", "30"]
    assert column(browser, "skips", 1) == ["65,536", "32,768", "32,768"]
    assert column(browser, "skips", 2) == ["dense/kernel Infdense/bias NaN", "dense/kernel Inf and NaN", "not recorded"]


def test_plot_goes_through_the_scales_of_the_timeline(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.click("#tab-scale")
    heights = browser.script("""
        const line = document.querySelector(".scale-line");
        const ticks = [...document.querySelectorAll(".tick")];
        const at = (tick) => Number(tick.getAttribute("y")) - 4; // the number stands a little below its line
        const levels = line.getAttribute("d").match(/(?<=[V ])[\\d.]+/g).map(Number);
        return levels.map((level) => ticks.find((tick) => Math.abs(at(tick) - level) < 0.01).textContent)""")
    assert heights == ["65,536", "32,768", "16,384", "32,768", "16,384"]


def test_scales_that_are_not_finite_do_not_break_the_page(browser: Browser) -> None:
    broken = ScalerReport("adam", float("nan"), 2, 1, ((0, 8.0), (1, float("inf"))), (Skip(1, ()),))
    browser.open(page(Report("broken", scalers=(broken,))))
    assert browser.text("#summary-scale") == "not finite"
    assert column(browser, "skips", 1) == ["unknown"]
    assert browser.complaints() == []


def test_advice_names_the_dimension_and_a_better_size(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.click("#tab-advice")
    assert browser.rows("advice") == [["encoder/query", "output size", "1,001", "1,000", "encoder/query/MatMul"]]


def test_comparison_shows_what_changed_with_both_reasons(browser: Browser) -> None:
    before, after = sample(), sample(Policy().with_deny("MatMul"))
    browser.open(page(after, before))
    browser.click("#tab-compare")
    step = compare(before, after)[0]
    assert len(step.changes) == 5
    assert browser.rows("changes") == [
        [
            f"{change.op} {change.kind}",
            change.dtype_before + change.reason_before.replace("`", ""),
            change.dtype_after + change.reason_after.replace("`", ""),
        ]
        for change in step.changes
    ]
    assert column(browser, "casts-removed", 0)[0] == "encoder/query/MatMul"
    assert len(column(browser, "casts-removed", 0)) == len(before.graphs[0].casts)
    assert browser.rows("casts-added") == []
    assert browser.rows("totals")[0] == ["16-bit ops", "5", "0", "\N{MINUS SIGN}5"]


def test_graphs_in_one_report_only_are_named(browser: Browser) -> None:
    other = replace(sample(), title="other", graphs=(GraphReport("x", "graph", "float16", rewritten=True, reason=""),))
    browser.open(page(sample(), other))
    browser.click("#tab-compare")
    assert browser.texts("#unpaired li") == [
        "x is only in other.",
        "train_step is only in a training run.",
        "serve is only in a training run.",
    ]
    assert browser.rows("changes") == []


def test_a_scope_tells_the_casts_below_it(browser: Browser) -> None:
    browser.open(page(sample()))
    graph = sample().graphs[0]
    assert browser.text("#scope-casts") == f"{len(graph.casts)} casts behind them, 6.1 MB, 1 of unknown size"


def hostile() -> Report:
    site = SiteRow(HOSTILE, "float16", HOSTILE, HOSTILE, f"`{HOSTILE}` {HOSTILE}", (0,), (0,))
    op = OpRow(HOSTILE, HOSTILE, HOSTILE, (site,), (0,), HOSTILE)
    graph = GraphReport(
        HOSTILE, HOSTILE, "float16", rewritten=False, reason=HOSTILE, policy={"low": HOSTILE, HOSTILE: [HOSTILE]}
    )
    filled = replace(
        graph, ops=(op,), casts=(CastRow(HOSTILE, 0, HOSTILE, 4),), advice=(Advice(HOSTILE, HOSTILE, 1, 2, (HOSTILE,)),)
    )
    scaler = ScalerReport(HOSTILE, 8.0, 2, 1, ((0, 8.0),), (Skip(1, ((HOSTILE, HOSTILE),)),))
    return Report(HOSTILE, {HOSTILE: HOSTILE}, (filled, filled), (scaler,), (HOSTILE,), (HOSTILE,))


def test_hostile_names_are_shown_as_text_and_do_nothing(browser: Browser) -> None:
    full = replace(hostile(), graphs=(replace(hostile().graphs[0], ops=(), casts=()), hostile().graphs[1]))
    browser.open(page(hostile(), full))
    browser.script("window.alert = () => { window.alerted = true; }")
    browser.press("/", "img")
    browser.press("\ue007")
    assert browser.text("#op-name") == HOSTILE
    for part in PARTS:
        browser.click(f"#tab-{part}")
    assert browser.text("#title") == HOSTILE
    assert browser.texts("#summary .warning") == [HOSTILE]
    assert browser.script("return [document.images.length, document.scripts.length, window.alerted]") == [0, 2, None]
    assert browser.complaints() == []
    assert browser.requested() == [browser.driver.current_url.partition("#")[0]]


def test_the_policy_of_the_page_refuses_foreign_scripts_and_requests(browser: Browser) -> None:
    browser.open(page(sample()))
    browser.script("""
        const script = document.createElement("script");
        script.textContent = "window.foreign = true";
        document.body.append(script);
        const image = new Image();
        image.src = "http://127.0.0.1:9/x.png";
        return fetch("http://127.0.0.1:9/").catch(() => null);""")
    assert browser.script("return window.foreign") is None
    assert len(browser.complaints()) >= 3


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_is_legible(browser: Browser, *, dark: bool) -> None:
    browser.open(page(sample(Policy().with_deny("MatMul")), sample()), dark=dark)
    for part in PARTS:
        browser.click(f"#tab-{part}")
        colours = browser.script(COLOURS)
        assert len(colours) > 20
        assert [found for found in colours if contrast(found[1], found[2]) < 4.5] == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_on_every_paint_is_legible(browser: Browser, *, dark: bool) -> None:
    browser.open(page(sample()), dark=dark)
    dim = [pair for pair in browser.script(PAINTS) if contrast(pair[1], pair[2]) < 4.5]
    assert dim == []


def contrast(first: str, second: str) -> float:
    lighter, darker = sorted((luminance(first), luminance(second)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(", ")]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_dark_differs_from_light(browser: Browser) -> None:
    browser.open(page(sample()))
    bright = luminance(browser.script("return getComputedStyle(document.body).backgroundColor"))
    browser.open(page(sample()), dark=True)
    assert luminance(browser.script("return getComputedStyle(document.body).backgroundColor")) < 0.1 < bright


@pytest.mark.parametrize("width", [360, 820, 1280, 2400])
def test_no_part_is_wider_than_the_screen(browser: Browser, width: int) -> None:
    browser.open(page(sample(Policy().with_deny("MatMul")), sample()), width=width)
    for part in PARTS:
        browser.click(f"#tab-{part}")
        assert browser.one(f"#panel-{part}").is_displayed()
        assert browser.script("return document.documentElement.scrollWidth") <= width


def test_the_page_works_inside_the_cell_of_a_notebook(browser: Browser) -> None:
    cell = f"<!doctype html><script>performance.mark('mixdown-ready')</script>{sample()._repr_html_()}"
    browser.open(cell)
    browser.driver.switch_to.frame(browser.one("iframe"))
    try:
        browser.settle()
        assert browser.text("#summary-share") == "100 %"
        browser.click("#search")
        browser.press("head/MatMul", "\ue007")
        assert browser.text("#op-name") == "head/MatMul"
    finally:
        browser.driver.switch_to.default_content()
