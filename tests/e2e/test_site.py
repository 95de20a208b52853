"""The site of `make site` in a real browser: axe-core finds nothing serious on pages of each kind, at three widths and
in both themes, its search is seen and finds, and from a file, where browsers let no search run, the page says so."""
import functools
import http.server
import os
import shutil
import subprocess
import threading

import pytest

from axe import findings, grave
from harness import ROOT, wait_until

PAGES = ("index.html", "policy.html", "guides/logins.html", "design/index.html")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    if shutil.which("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    out = tmp_path_factory.mktemp("pages")
    done = subprocess.run([os.path.join(ROOT, "tools", "site"), out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "site"


@pytest.fixture(scope="module")
def site(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def show(driver, url, width=1440, theme="light"):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                           {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                           {"features": [{"name": "prefers-color-scheme", "value": theme},
                                         {"name": "prefers-reduced-motion", "value": "reduce"}]})
    driver.get(url)
    driver.execute_script("localStorage.clear()" if url.startswith("http") else "")
    driver.get(url)


def seen(driver, selector):
    return driver.execute_script("const e = document.querySelector(arguments[0]);"
                                 "return e !== null && e.checkVisibility() && e.innerText + (e.placeholder ?? '')",
                                 selector)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390])
def test_axe_finds_nothing_serious(chromium, axe, site, width, theme):
    for page in PAGES:
        show(chromium, site + page, width, theme)
        wait_until(lambda: chromium.execute_script("return document.querySelector('.md-search[aria-label]') !== null"),
                   "the page's script")
        assert (page, grave(chromium, axe)) == (page, [])
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    chromium.execute_script("document.querySelector('article p').style.color = '#bbb'")
    assert theme == "dark" or ("serious", "color-contrast") in {one[:2] for one in findings(chromium, axe)}, "it looks"


def test_the_search_is_seen_and_finds(chromium, site):
    show(chromium, site)
    assert seen(chromium, ".md-search__input") == "Search"
    box = chromium.find_element("css selector", ".md-search__input")
    box.click()
    box.send_keys("retry_after")
    wait_until(lambda: chromium.execute_script(
        "return document.querySelectorAll('.md-search-result__item').length > 0"), "something found")


def test_from_a_file_it_says_why_there_is_no_search(chromium, folder):
    show(chromium, f"file://{folder}/index.html")
    wait_until(lambda: seen(chromium, ".unsearchable"), "why there is none")
    assert seen(chromium, ".unsearchable") == "Search needs a server: python3 -m http.server"
