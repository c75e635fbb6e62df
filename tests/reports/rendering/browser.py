"""A real headless Chromium for the page tests. Start with `headless`.

Debian's packages chromium and chromium-driver, driven through selenium; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
READY = bool(CHROMIUM and DRIVER and importlib.util.find_spec("selenium"))
needs_chromium = pytest.mark.skipif(
    not READY,
    reason="the report's page needs Chromium: apt-get install chromium chromium-driver, and pip install selenium",
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",  # it is small in containers
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
QUIET = 30  # seconds until a page that does not come to rest is given up


class Browser:
    """One window; every method speaks of the page that is open."""

    def __init__(self, driver: Chrome, folder: Path) -> None:
        self.driver = driver
        self.folder = folder

    def open(self, html: str, *, width: int = 1440, height: int = 1000, dark: bool = False) -> None:
        """Show a page from a file, and wait until it is drawn."""
        path = self.folder / "page.html"
        path.write_text(html, "utf-8")
        self.screen(width, height)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")  # so that not even the part after # is left of the page before
        self.forget()
        self.driver.get(path.as_uri())
        self.settle()

    def screen(self, width: int, height: int) -> None:
        """Give the window a size, however small."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def settle(self) -> None:
        """Wait until the page has started and drawn what was last asked for."""
        self.driver.set_script_timeout(QUIET)
        self.driver.execute_async_script("""
            const done = arguments[0];
            const wait = () => performance.getEntriesByName("mixdown-ready").length
                ? requestAnimationFrame(() => requestAnimationFrame(done)) : setTimeout(wait, 10);
            wait();""")

    def forget(self) -> None:
        """Throw away what was logged so far."""
        for kind in ("browser", "performance"):
            self.driver.get_log(kind)

    def complaints(self) -> list[str]:
        """What the console shows."""
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requested(self) -> list[str]:
        """The addresses that were asked for since the page was opened, data inside the page apart."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event["params"]["request"] for event in events if event["method"] == "Network.requestWillBeSent"]
        return [request["url"] for request in sent if not request["url"].startswith("data:")]

    def one(self, css: str) -> WebElement:
        """The first element of a selector."""
        return self.driver.find_element("css selector", css)

    def text(self, css: str) -> str:
        """The text of an element, shown or not."""
        return str(self.one(css).get_property("textContent"))

    def texts(self, css: str) -> list[str]:
        """The texts of all elements of a selector."""
        return list(
            self.script("return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent)", css)
        )

    def rows(self, table: str) -> list[list[str]]:
        """The cells of a table."""
        cells = "(row) => [...row.cells].map((cell) => cell.textContent)"
        found = f"return [...document.querySelectorAll(arguments[0])].map({cells})"
        return list(self.script(found, f"table[data-table={table}] tbody tr"))

    def click(self, css: str) -> None:
        """Click where a person would, and wait until the page has answered."""
        element = self.one(css)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()
        self.settle()

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver import ActionChains  # noqa: PLC0415 - selenium is optional, see READY

        ActionChains(self.driver).send_keys(*keys).perform()
        self.settle()

    def tab_to(self, css: str, most: int = 60) -> None:
        """Press Tab until an element of the selector has the focus."""
        for _ in range(most):
            self.press("\ue004")
            if self.script("return document.activeElement.matches(arguments[0])", css):
                return
        raise AssertionError(f"{css} cannot be reached with {most} times Tab")

    def script(self, source: str, *arguments: Any) -> Any:
        """What a piece of JavaScript returns."""
        return self.driver.execute_script(source, *arguments)


@contextmanager
def headless() -> Iterator[Browser]:
    """A browser with a profile of its own, gone at the end."""
    from selenium import webdriver  # noqa: PLC0415 - selenium is optional, see READY
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415 - selenium is optional, see READY

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM or ""
        for flag in (*FLAGS, f"--user-data-dir={folder}/profile"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        with webdriver.Chrome(options=options, service=Service(DRIVER)) as driver:
            yield Browser(driver, Path(folder))
