"""The dashboard in a real browser: Debian's Chromium, driven by its chromedriver, against a real server.

It loads without an error or a breach of its Content-Security-Policy, shows live numbers and draws them, sorts, looks
keys up and resets them, signs people in, works by keyboard alone, names every control, keeps contrasts of 4.5 in both
themes, and shows hostile keys as the text they are. SLUICE_SHOTS names a folder for screenshots (else a temporary one).
"""

import base64
import glob
import hashlib
import http.client
import os
import struct
import threading
import time
import zlib

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from axe import grave
from harness import DEADLINE_S, ROOT, raw_exchange, wait_until
from redis_world import redises  # noqa: F401 - a fixture

PAGE = os.path.join(ROOT, "hosts", "server", "page")
HOSTILE = "<img src=x onerror=document.title='pwned'>"
POLICY = """
limits:
  - name: login
    when: {path: /login}
    key: ip
    limit: sliding-log 5/1h
  - name: per-user
    key: user
    limit: 600/1h
    candidate: 20/1h
  - name: search
    when: {path: /search*}
    key: [user, path]
    limit: token-bucket 10/1h burst 5
    observe: true
"""


def token_user(name, role):
    token = f"token-of-{name}-" + "x" * 30
    hashed = hashlib.sha256(token.encode()).hexdigest()
    return token, f"  - {{name: {name}, token: 'sha256:{hashed}', role: {role}}}\n"


# ---- the browser ---------------------------------------------------------------------------------------------------

class Browser:
    """One tab at the dashboard of one server."""

    def __init__(self, driver, server):
        self.driver, self.server = driver, server
        self.base = f"http://127.0.0.1:{server.http_port}"
        driver.get_log("browser")

    def open(self, width=1440, height=1000, theme="light", live=True):
        self.size(width, height)
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia",
                                    {"features": [{"name": "prefers-color-scheme", "value": theme}]})
        self.driver.get(self.base + "/")
        self.js("sessionStorage.clear(); localStorage.clear()")
        self.driver.get(self.base + "/")
        if live:
            self.wait(lambda: self.text("#state") == "live", "the page is live")
        return self

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def get(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def texts(self, selector):
        return self.js("return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText)", selector)

    def wait(self, condition, what):
        return wait_until(condition, what)

    def press(self, *keys):
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self):
        return self.js("const e = document.activeElement; return e.id || e.innerText || e.tagName")

    def search(self, text):
        box = self.get("#search-text")
        box.clear()
        box.send_keys(text, Keys.ENTER)

    def errors(self):
        """What the console had to say. A refused request (401, 403, 429) is told there by the browser itself."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if not any(f"status of {status}" in entry["message"] for status in (401, 403, 429))]

    def shot(self, name):
        folder = os.environ.get("SLUICE_SHOTS", os.path.join(self.server.folder.name, "shots"))
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, name + ".png")
        self.js("document.activeElement.blur(); scrollTo(0, 0)")
        assert self.driver.save_screenshot(path)
        return path


@pytest.fixture
def browser(chromium, server):
    """A factory: browser(policy, args...) starts a server and a tab at it; every test ends with an empty console."""
    opened = []

    def start(policy=POLICY, **options):
        opened.append(Browser(chromium, server(policy=policy, **options)))
        return opened[-1]

    yield start
    errors = [error for one in opened for error in one.errors()]
    chromium.get("about:blank")
    assert errors == []


class Load:
    """Requests that go on while a test looks: about a hundred a second over one connection."""

    def __init__(self, server, headers=None):
        self.server, self.headers, self.ending = server, headers, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ending.set()
        self.thread.join()

    def run(self):
        with self.server.http() as client:
            n = 0
            while not self.ending.wait(0.01):
                n += 1
                user = ("alice", "bob", "carol", HOSTILE)[n % 4]
                path = "/login" if n % 3 == 0 else "/search/shoes"
                client.post("/v1/admit", {"attributes": {"user": user, "path": path, "ip": "203.0.113.7"}},
                            self.headers)


def spend(server, count, **attributes):
    with server.http() as client:
        for _ in range(count):
            client.post("/v1/admit", {"attributes": attributes})


# ---- the files ----------------------------------------------------------------------------------------------------

def fetch(server, method, path, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=DEADLINE_S)
    connection.putrequest(method, path, skip_accept_encoding=True)
    for name, value in (headers or {}).items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    body = response.read()
    connection.close()
    return response.status, response.headers, body


def test_files_are_served_with_what_keeps_a_page_safe(server):
    one = server()
    for path, name, kind in (("/", "index.html", "text/html"), ("/dashboard/page.js", "page.js", "text/javascript"),
                             ("/dashboard/page.css", "page.css", "text/css"),
                             ("/dashboard/icon.svg", "icon.svg", "image/svg+xml")):
        status, headers, body = fetch(one, "GET", path)
        with open(os.path.join(PAGE, name), "rb") as file:
            assert (status, body) == (200, file.read())
        assert headers["Content-Type"].startswith(kind)
        assert headers["Content-Security-Policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
            "base-uri 'none'; frame-ancestors 'none'; form-action 'none'")
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-cache"


def test_copies_are_revalidated(server):
    one = server()
    status, headers, body = fetch(one, "GET", "/dashboard/page.js")
    etag = headers["ETag"]
    for held in (etag, f'"other", {etag}', f"W/{etag}", "*"):
        status, again, empty = fetch(one, "GET", "/dashboard/page.js", {"If-None-Match": held})
        assert (status, empty, again["ETag"]) == (304, b"", etag)
        assert again["Content-Length"] is None
    for other in ('"other"', etag.strip('"'), ""):
        assert fetch(one, "GET", "/dashboard/page.js", {"If-None-Match": other})[0] == 200
    head = raw_exchange(one.http_port, b"HEAD /dashboard/page.js HTTP/1.1\r\nHost: x\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and b"\r\nContent-Length: %d\r\n" % len(body) in head
    assert head.index(b"\r\n\r\n") == len(head) - 4, "a body, which HEAD must not have"


@pytest.mark.parametrize("path", ["/dashboard/", "/dashboard/package.json", "/dashboard/../page.js",
                                  "/dashboard/page.j", "/dashboard//page.js", "/dashboard/page.js/",
                                  "/dashboard/%2e%2e/etc/passwd",
                                  "/dashboard/page.js%00", "/index.html"])
def test_only_the_names_of_the_table_are_served(server, path):
    status, headers, body = fetch(server(), "GET", path)
    assert status == 404
    assert headers["Content-Type"].startswith("application/problem+json")


def test_page_takes_nothing_from_elsewhere_and_has_nothing_inline():
    with open(os.path.join(PAGE, "index.html"), encoding="utf-8") as file:
        page = file.read()
    assert "://" not in page and "<style" not in page and "style=" not in page and " on" not in page.split("<body>")[0]
    assert page.count("<script") == page.count("<script src=")
    scripts = [open(name, encoding="utf-8").read() for name in glob.glob(os.path.join(PAGE, "*.js"))]
    for text in scripts:
        for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function"):
            assert word not in text
    # Small enough to be read in an evening: what is left without indentation and comments.
    code = sum(len(line.strip()) + 1 for text in scripts for line in text.split("\n")
               if not line.strip().startswith(("/*", "*", "//")))
    assert code < 56 * 1024


# ---- live ------------------------------------------------------------------------------------------------------------

# The bytes of a figure's canvas, read from a copy so that the chart's own stays where it is drawn.
PIXELS = """(figure) => {
    const canvas = document.querySelector(figure + ' canvas');
    if (canvas === null || canvas.width === 0)
        return [];
    const copy = Object.assign(document.createElement('canvas'), {width: canvas.width, height: canvas.height})
        .getContext('2d', {willReadFrequently: true});
    copy.drawImage(canvas, 0, 0);
    return copy.getImageData(0, 0, canvas.width, canvas.height).data;
}"""


def painted(browser, figure):
    """How many pixels of a figure's canvas are not empty."""
    return browser.js("""
        const pixels = (%s)(arguments[0]);
        let count = 0;
        for (let i = 3; i < pixels.length; i += 4)
            count += pixels[i] > 0;
        return count;""" % PIXELS, figure)


def colored(browser, figure, name):
    """How many pixels have the colour of a series."""
    return browser.js("""
        const got = (%s)(arguments[0]);
        const probe = document.createElement('canvas').getContext('2d');
        probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--' + arguments[1]).trim();
        probe.fillRect(0, 0, 1, 1);
        const want = probe.getImageData(0, 0, 1, 1).data;
        let count = 0;
        for (let i = 0; i < got.length; i += 4)
            count += got[i + 3] > 200 && [0, 1, 2].every((c) => Math.abs(got[i + c] - want[c]) < 12);
        return count;""" % PIXELS, figure, name)


def rate_of(text):
    return 0.0 if text in ("–", "<0.1") else float(text.replace(",", "").replace("/s", ""))


def test_numbers_live_under_load_and_charts_are_drawn(browser):
    b = browser()
    with Load(b.server):
        b.open()
        b.wait(lambda: rate_of(b.text("#tile-requests")) > 20, "requests are counted")
        b.wait(lambda: rate_of(b.text("#tile-denied")) > 5, "denials are counted")
        for kind in ("denied", "shadow", "candidate"):
            b.wait(lambda: any("=" in row for row in b.texts(f"#{kind} tbody tr")), f"{kind}: keys are listed")
        first = b.text("#tile-requests") + b.text("#chart-allowed b")
        b.wait(lambda: b.text("#tile-requests") + b.text("#chart-allowed b") != first, "numbers change")
        rows = dict(zip(b.texts("#limits tbody button"), b.texts("#limits tbody tr")))
        assert set(rows) == {"login", "per-user", "search"}
        assert "observed" in rows["search"] and "candidate" in rows["per-user"]
        assert "sliding-window 600/1h → sliding-window 20/1h" in rows["per-user"]
        would = b.js("""return Object.fromEntries([...document.querySelectorAll('#limits tbody tr')].map((row) =>
            [row.querySelector('button').innerText, row.cells[5].innerText]))""")
        assert rate_of(would["search"]) > 0 and rate_of(would["per-user"]) > 0 and would["login"] == "0"
        for figure, name in (("#chart-allowed", "allowed"), ("#chart-denied", "denied"), ("#chart-latency", "denied"),
                             ("#chart-requests", "allowed"), ("#chart-store", "allowed")):
            b.wait(lambda: painted(b, figure) > 500 and colored(b, figure, name) > 5, f"{figure} is drawn")
        assert "p50" in b.text("#tile-latency-under") and b.text("#tile-latency") != "–"
        assert b.text("#tile-keys") not in ("", "–")
        label = b.get("#chart-denied .plot").get_attribute("aria-label")
        assert label.startswith("Denied, all limits together. Now: denied ") and "Highest denied: " in label


def test_history_is_there_when_the_page_is_opened(browser):
    b = browser()
    spend(b.server, 9, path="/login", ip="198.51.100.1")
    with b.server.http() as client:
        def sampled():
            limits = client.ask("GET", "/v1/figures?history=1&limit=login")[2]["limits"]
            return any(limits[0]["history"]["denied"])
        wait_until(sampled, "the server samples its stats")
    b.open()
    b.get("#chart-denied summary").click()
    rows = b.wait(lambda: b.texts("#chart-denied tbody tr"), "the table of minutes")
    assert any(rate_of(row.split()[1]) > 0 or "<0.1" in row for row in rows)


def test_built_without_charts_the_numbers_are_tables(browser):
    b = browser()
    spend(b.server, 9, path="/login", ip="198.51.100.1")
    without = b.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": """
        Object.defineProperty(globalThis, 'uPlot', {get: () => undefined, set() {}});
        globalThis.chartsMissing = 'built without charts: npm was not found';"""})
    try:
        b.open()
        assert b.text("#banners") == "Charts are shown as numbers: built without charts: npm was not found."
        assert b.js("return document.querySelectorAll('canvas').length") == 0
        b.wait(lambda: b.texts("#denied tbody button"), "lists are there")
        b.get("#chart-denied summary").click()
        b.wait(lambda: b.texts("#chart-denied tbody tr"), "and the table of minutes")
    finally:
        b.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", without)


def test_choosing_limits_charts_them_alone(browser):
    b = browser()
    with Load(b.server):
        b.open()
        button = b.wait(lambda: [e for e in b.driver.find_elements(By.CSS_SELECTOR, "#limits tbody button")
                                 if e.text == "login"], "the limit is listed")[0]
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert b.text("#chosen") == "login"
        assert b.get("#chart-denied .plot").get_attribute("aria-label").startswith("Denied, login.")
        b.wait(lambda: rate_of(b.text("#chart-allowed b")) == 0, "login allows nothing more")
        b.get("#choose-all").click()
        assert b.text("#chosen") == "all limits together"
        assert button.get_attribute("aria-pressed") == "false"


def test_columns_sort_both_ways_and_say_so(browser):
    b = browser().open()
    names = lambda: b.texts("#limits tbody th button")  # noqa: E731
    head = b.get("#limits thead th:first-child")
    head.find_element(By.TAG_NAME, "button").click()
    assert (names(), head.get_attribute("aria-sort")) == (["login", "per-user", "search"], "ascending")
    head.find_element(By.TAG_NAME, "button").click()
    assert (names(), head.get_attribute("aria-sort")) == (["search", "per-user", "login"], "descending")
    assert b.js("return document.querySelectorAll('#limits [aria-sort]').length") == 1


# ---- many limits -----------------------------------------------------------------------------------------------------

MANY, OWN, ROWS = 3000, 1024, 100  # limits; those with figures of their own; rows of a page
MANY_POLICY = "attributes: {user: given}\nlimits:\n" + "".join(
    f"  - {{name: n{i}, when: {{user: u{i}}}, optional: true, key: user, limit: fixed-window {i + 1}/1d}}\n"
    for i in range(MANY))


def asked_for(browser, what):
    return browser.js("return performance.getEntriesByType('resource').map((e) => e.name)"
                      ".filter((name) => name.includes(arguments[0]))", what)


def rows_made(browser):
    """The rows of all tables, and what can be chosen in lists: few, however many limits there are."""
    return browser.js("return document.querySelectorAll('tr, option').length")


def range_of(browser):
    return browser.text("#limits-range")


def test_many_limits_are_shown_a_page_at_a_time(browser):
    b = browser(MANY_POLICY)
    spend(b.server, 2, user="u7")
    spend(b.server, 1, user=f"u{MANY - 1}")
    b.open()
    names = lambda: b.texts("#limits tbody th button")  # noqa: E731
    total = MANY + 1  # with the row of those without figures
    b.wait(lambda: range_of(b) == f"1 to {ROWS} of {total:,}", "how many there are")
    assert len(names()) == ROWS and rows_made(b) < 2 * ROWS
    assert len(asked_for(b, "/v1/limits")) == 1, "pages are asked for as they are needed"

    # By keyboard alone: page by page to the last limit, the focus stays on the button.
    b.js("document.getElementById('limits-next').focus()")
    pages = -(-total // ROWS)
    for page in range(1, pages):
        b.press(Keys.ENTER)
        until = min(total, (page + 1) * ROWS)
        b.wait(lambda: range_of(b) == f"{page * ROWS + 1:,} to {until:,} of {total:,}" and  # noqa: B023
               len(names()) == until - page * ROWS, "the next page")  # noqa: B023
        assert b.focused() == "limits-next" and rows_made(b) < 2 * ROWS
    assert names()[-1] == f"n{MANY - 1}" and f"fixed-window {MANY}/1d" in b.texts("#limits tbody tr")[-1]
    asked = len(asked_for(b, "/v1/limits"))
    b.press(Keys.ENTER)
    assert range_of(b).startswith(f"{(pages - 1) * ROWS + 1:,} to "), "there is no page after the last"
    webdriver.ActionChains(b.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT).perform()
    assert b.focused() == "limits-before"
    b.press(Keys.SPACE)
    b.wait(lambda: range_of(b).startswith(f"{(pages - 2) * ROWS + 1:,} to "), "back")
    assert len(asked_for(b, "/v1/limits")) == asked, "what is known is not asked for again"
    b.get("#limits thead button").click()
    b.wait(lambda: range_of(b).startswith("1 to "), "whoever sorts sees the first")


def test_many_limits_are_found_by_a_filter(browser):
    b = browser(MANY_POLICY)
    b.open()
    names = lambda: b.texts("#limits tbody th button")  # noqa: E731
    b.wait(lambda: range_of(b), "shown")
    box = b.get("#limits-filter")
    box.send_keys(f"N{MANY - 1}")
    b.wait(lambda: names() == [f"n{MANY - 1}"], "the last limit is found")
    assert range_of(b) == "1 to 1 of 1" and b.focused() == "limits-filter"
    assert len(asked_for(b, "/v1/limits")) <= 2 + -(-(MANY - OWN) // OWN)
    b.get("#limits tbody button").click()  # it has no figures: it is looked up
    assert b.focused() == "search-text" and b.get("#search-limit").get_attribute("value") == f"policy:n{MANY - 1}"
    b.search(f"user=u{MANY - 1}")
    b.wait(lambda: f"{MANY:,} left of {MANY:,}" in b.text("#found"), "its counter")
    for text, found in (("window 2998/1d", ["n2997"]), ("(others", ["(others)"]), ("<b>", [])):
        box.clear()
        box.send_keys(text)
        b.wait(lambda: names() == found, text)  # noqa: B023
    assert b.text("#limits tbody") == "No limit has that in its name or notation."
    box.clear()
    box.send_keys("n")
    b.wait(lambda: range_of(b) == f"1 to {ROWS} of {MANY:,}", "all of them")
    assert len(names()) == ROWS
    limit = b.get("#search-limit")
    limit.clear()
    limit.send_keys("n299")
    offered = "return [...document.querySelectorAll('#search-limits option')].map((option) => option.value)"
    b.wait(lambda: b.js(offered) == [f"policy:n{n}" for n in (299, *range(2990, 3000))], "names to choose from")
    limit.clear()
    limit.send_keys("n2")
    b.wait(lambda: len(b.js(offered)) == 20, "not all of them")
    limit.send_keys("998")
    b.search("user=u2998")
    b.wait(lambda: "2,999 left of 2,999" in b.text("#found"), "a name alone is enough")


def test_pages_of_limits_follow_a_reload(browser):
    b = browser(MANY_POLICY)
    b.open()
    b.get("#limits-filter").send_keys("n2999")
    b.wait(lambda: b.texts("#limits tbody th button") == ["n2999"], "found")
    with open(b.server.policy_file, "w", encoding="utf-8") as file:
        file.write(MANY_POLICY.replace("fixed-window 3000/1d", "fixed-window 4000/1d"))
    with b.server.http() as client:
        client.post("/v1/reload", {})
    b.wait(lambda: "fixed-window 4000/1d" in b.text("#limits tbody"), "as it is now")
    with open(b.server.policy_file, "w", encoding="utf-8") as file:
        file.write(POLICY)
    with b.server.http() as client:
        client.post("/v1/reload", {})
    b.wait(lambda: b.text("#limits tbody") == "No limit has that in its name or notation.", "it is gone")
    b.get("#limits-filter").clear()
    b.wait(lambda: sorted(b.texts("#limits tbody th button")) == ["login", "per-user", "search"], "those there are")
    assert not b.get("#limits-pages").is_displayed() and not b.get("#limits-find").is_displayed()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_pages_of_limits_have_names_and_contrasts(browser, width, theme):
    b = browser(MANY_POLICY)
    spend(b.server, 9, user="u3")
    b.open(width, 1000, theme)
    b.wait(lambda: range_of(b).startswith("1 to 100 of"), "shown")
    assert b.js(NAMELESS) == []
    assert [(round(ratio, 2), what) for ratio, least, what in b.js(CONTRASTS) if ratio < least] == []
    assert b.js("return document.documentElement.scrollWidth") <= width
    b.get("#limits-next").click()
    b.get("#limits-filter").send_keys("n29")
    b.wait(lambda: range_of(b) == "1 to 100 of 111", "found")  # 29, 290 to 299, 2900 to 2999
    b.size(width, b.js("return document.documentElement.scrollHeight"))
    assert png_spread(b.shot(f"limits-{width}-{theme}")) > 40


# ---- pausing, following, what goes wrong -----------------------------------------------------------------------------

def test_pause_stops_asking(browser):
    b = browser().open()
    b.get("#pause").click()
    assert b.text("#state") == "paused"
    asked = "return performance.getEntriesByType('resource').filter((e) => e.name.includes('/v1/figures')).length"
    time.sleep(0.3)  # what was on its way
    count = b.js(asked)
    time.sleep(2.5)  # longer than a turn: nothing to wait for, since nothing may happen
    assert b.js(asked) == count
    b.get("#pause").click()
    b.wait(lambda: b.js(asked) > count, "it goes on")


def test_decisions_as_they_happen(browser):
    b = browser().open()
    rows = lambda: [[c.text for c in r.find_elements(By.TAG_NAME, "td")]  # noqa: E731
                    for r in b.driver.find_elements(By.CSS_SELECTOR, "#tail-lines tbody tr")]
    following = lambda: fetch(b.server, "GET", "/metrics")[2].count(b"sluice_tail_readers 1\n")  # noqa: E731
    assert b.text("#tail-follow") == "Follow" and not following()
    b.get("#tail-follow").click()
    b.wait(following, "the page follows")
    spend(b.server, 1, user=HOSTILE)
    spend(b.server, 6, ip="192.0.2.7", path="/login", method="get")
    b.wait(lambda: len(rows()) == 7, "seven rows")
    assert rows()[0][1:3] == ["denied", "login"] and rows()[0][5] == "GET /login 192.0.2.7"  # newest first
    assert rows()[6][1:5] == ["allowed", "per-user", "user=" + HOSTILE.replace("=", "%3D"), "599 of 600 left"]
    assert b.js("return document.title") == "Sluice"
    b.get("#tail-follow").click()
    assert b.text("#tail-said") == "Stopped."
    b.wait(lambda: not following(), "the server is rid of the page")
    b.get("#tail-limit").send_keys("logn")
    b.get("#tail-follow").click()
    b.wait(lambda: "did you mean login?" in b.text("#tail-said"), "a wrong limit is told")
    assert b.text("#tail-follow") == "Follow"
    b.get("#tail-limit").clear()
    b.get("#tail-limit").send_keys("login")
    b.get("#tail-key").send_keys("ip=192.0.2.8")
    b.get("#tail-denied").click()
    b.get("#tail-follow").click()
    b.wait(following, "the page follows")
    spend(b.server, 7, ip="192.0.2.7", path="/login")
    spend(b.server, 7, ip="192.0.2.8", path="/login")
    b.wait(lambda: len(rows()) == 2, "two denials")
    assert {row[3] for row in rows()} == {"ip=192.0.2.8"}
    b.get("#pause").click()
    b.wait(lambda: not following(), "a pause ends it")
    assert b.text("#tail-said") == "Paused."
    assert [x for x in b.errors() if "status of 400" not in x] == []  # of the wrong limit


def test_says_when_the_server_is_gone(browser):
    b = browser().open()
    b.server.stop()
    b.wait(lambda: "No answer from the server since" in b.text("#banners"), "a banner")
    assert b.text("#state") == "no answer"
    b.errors()  # the browser tells of refused connections, rightly


def test_says_when_the_policy_was_not_taken_over(browser):
    b = browser().open()
    with open(b.server.policy_file, "w", encoding="utf-8") as file:
        file.write("limits: nonsense\n")
    with b.server.http() as client:
        client.post("/v1/reload", {})
    b.wait(lambda: "could not be loaded" in b.text("#banners"), "a banner")
    with open(b.server.policy_file, "w", encoding="utf-8") as file:
        file.write(POLICY)
    with b.server.http() as client:
        client.post("/v1/reload", {})
    b.wait(lambda: b.text("#banners") == "", "no banner")


# ---- looking up and resetting ----------------------------------------------------------------------------------------

def test_search_shows_each_limit_and_charges_nothing(browser):
    b = browser().open()
    spend(b.server, 30, user="alice", path="/x")
    b.search("user=alice path='/search/blue shoes'")
    b.wait(lambda: len(b.texts("#found article")) == 2, "two limits apply")
    per_user, search = b.texts("#found article")
    assert "per-user" in per_user and "570 left of 600" in per_user and "user=alice" in per_user
    assert "Next unit returns in" in per_user and "Candidate" in per_user and "would deny" in per_user
    assert "search" in search and "observed" in search and "5 left of 5" in search
    assert "user=alice,path=/search/blue shoes" in search
    assert b.text("#search-said") == "per-user: 570 left; search: 5 left"
    b.search("color=red")
    b.wait(lambda: b.text("#search-said").startswith("No limit applies"), "none applies")
    b.search("alice")
    b.wait(lambda: 'expected name=value at "alice"' in b.text("#search-said"), "what is wrong")
    assert b.get("#search-text").get_attribute("aria-invalid") == "true" and b.focused() == "search-text"
    b.search("user=alice")
    b.wait(lambda: "570 left" in b.text("#found"), "nothing was charged")


def test_what_was_found_is_kept_up_to_date(browser):
    b = browser().open()
    b.search("user=alice")
    b.wait(lambda: "600 left" in b.text("#found"), "found")
    spend(b.server, 7, user="alice")
    b.wait(lambda: "593 left" in b.text("#found"), "kept up to date")


def test_a_click_in_the_list_inspects_and_reset_frees(browser):
    b = browser()
    spend(b.server, 12, path="/login", ip="203.0.113.9")
    b.open()
    button = b.wait(lambda: b.driver.find_elements(By.CSS_SELECTOR, "#denied tbody button"), "listed")[0]
    assert button.text == "ip=203.0.113.9"
    button.click()
    b.wait(lambda: "0 left of 5" in b.text("#found"), "inspected")
    assert b.get("#search-limit").get_attribute("value") == "policy:login"
    assert "denies" in b.text("#found article")
    b.get("#found article button").click()
    assert b.focused() == "Reset now" and b.text("#found").count("Clear this counter?") == 1
    b.press(Keys.ESCAPE)
    assert b.focused() == "Reset…" and "0 left of 5" in b.text("#found")
    b.get("#found article button").click()
    b.get("#found .danger").click()
    b.wait(lambda: b.text("#search-said") == "login was reset for ip=203.0.113.9: the whole quota is free.", "said")
    b.wait(lambda: "5 left of 5" in b.text("#found"), "shown")
    with b.server.http() as client:
        assert client.post("/v1/admit", {"attributes": {"path": "/login", "ip": "203.0.113.9"}})[0] == 200


def test_a_limit_in_notation_is_inspected_and_reset(browser):
    b = browser()
    with b.server.http() as client:
        for _ in range(5):
            client.post("/v1/check", {"key": "job:7", "limits": ["3/1h"]})
    b.open()
    button = b.wait(lambda: b.driver.find_elements(By.CSS_SELECTOR, "#denied tbody button"), "listed")[0]
    button.click()
    b.wait(lambda: "0 left of 3" in b.text("#found"), "inspected")
    b.get("#found article button").click()
    b.get("#found .danger").click()
    b.wait(lambda: "3 left of 3" in b.text("#found"), "reset")


def test_hostile_keys_are_text(browser):
    b = browser()
    for key in (HOSTILE, "\"'><script>document.title='pwned'</script>", "${alert(1)}", "a\u202eb"):
        spend(b.server, 9, path="/login", ip=key)
        spend(b.server, 9, path="/search/" + key, user=key)
    b.open()
    b.wait(lambda: any("<img src%3Dx onerror" in t for t in b.texts("#denied tbody th")), "listed as text")
    for button in b.driver.find_elements(By.CSS_SELECTOR, "#denied tbody button"):
        button.click()
        b.wait(lambda: "0 left of 5" in b.text("#found"), "inspected by just that key")
    b.search(f'user="{HOSTILE}"')
    b.wait(lambda: "onerror" in b.text("#found"), "found as text")
    assert b.js("return document.querySelectorAll('main img, main script, #banners *').length") == 0
    assert b.driver.title == "Sluice"


# ---- who may ---------------------------------------------------------------------------------------------------------

def test_signing_in_by_token(browser):
    token, user = token_user("ops", "read")
    b = browser(POLICY + "users:\n" + user).open(live=False)
    b.wait(lambda: b.js("return document.getElementById('sign-in').open"), "the form")
    assert b.focused() == "sign-in-user" and b.text("#sign-in-why") == "The server asks who you are."
    b.get("#sign-in-secret").send_keys("wrong" * 10, Keys.ENTER)
    b.wait(lambda: b.text("#sign-in-why").startswith("That was not accepted"), "refused")
    b.get("#sign-in-secret").send_keys(token, Keys.ENTER)
    b.wait(lambda: b.text("#state") == "live", "signed in")
    assert b.text("#sign") == "Sign out"
    b.driver.refresh()
    b.wait(lambda: b.text("#state") == "live", "still signed in")
    b.search("user=alice")
    b.wait(lambda: "600 left" in b.text("#found"), "read may look")
    b.get("#found article button").click()
    b.get("#found .danger").click()
    said = b.wait(lambda: b.text("#search-said") if "not reset" in b.text("#search-said") else None, "refused")
    assert "admin" in said
    b.get("#sign").click()
    b.wait(lambda: b.js("return document.getElementById('sign-in')?.open"), "signed out")
    assert b.js("return sessionStorage.length") == 0


def test_admin_by_name_and_password_may_reset(browser, sluice_bin):
    salt, rounds = bytes(range(16)), 1000
    hashed = hashlib.pbkdf2_hmac("sha256", "pass:wörd".encode(), salt, rounds).hex()
    b = browser(POLICY + "users:\n  - {name: root, role: admin, "
                f"password: 'pbkdf2-sha256:{rounds}:{salt.hex()}:{hashed}'}}\n").open(live=False)
    b.wait(lambda: b.js("return document.getElementById('sign-in').open"), "the form")
    b.get("#sign-in-user").send_keys("root")
    b.get("#sign-in-secret").send_keys("pass:wörd", Keys.ENTER)
    b.wait(lambda: b.text("#state") == "live", "signed in")
    basic = "Basic " + base64.b64encode("root:pass:wörd".encode()).decode()
    with b.server.http() as client:
        for _ in range(3):
            assert client.post("/v1/admit", {"attributes": {"user": "eve"}}, {"Authorization": basic})[0] == 200
    b.search("user=eve")
    b.wait(lambda: "597 left" in b.text("#found"), "found")
    b.get("#found article button").click()
    b.get("#found .danger").click()
    b.wait(lambda: "600 left" in b.text("#found"), "reset")


def test_a_role_that_is_missing_is_named(browser):
    token, user = token_user("app", "check")
    b = browser(POLICY + "users:\n" + user).open(live=False)
    b.wait(lambda: b.js("return document.getElementById('sign-in').open"), "the form")
    b.get("#sign-in-secret").send_keys(token, Keys.ENTER)
    b.wait(lambda: "read" in b.text("#banners"), "the role")
    assert b.text("#state") == "not allowed"


# ---- for everybody ---------------------------------------------------------------------------------------------------

def test_by_keyboard_alone(browser):
    b = browser()
    spend(b.server, 9, path="/login", ip="203.0.113.9")
    b.open()
    b.wait(lambda: b.texts("#denied tbody button"), "listed")
    b.get("#pause").click()
    b.js("document.activeElement.blur()")
    reached, outlined = [], 0
    for _ in range(80):
        b.press(Keys.TAB)
        reached.append(b.focused())
        if reached[-1] == "BODY":
            break
        outlined += b.js("return parseFloat(getComputedStyle(document.activeElement).outlineWidth) >= 2")
    stops = [name for name in reached if name != "BODY"]
    assert outlined == len(stops), "a focus that can't be seen"
    for name in ("Skip to the figures", "pause", "theme", "sign", "login", "Denied/s", "ip=203.0.113.9", "search-limit",
                 "search-text", "Look up", "By the minute"):
        assert name in stops, (name, stops)
    b.js("document.getElementById('search-text').focus()")
    b.press("path=/login ip=203.0.113.9", Keys.ENTER)
    b.wait(lambda: "0 left of 5" in b.text("#found"), "found")
    b.press(Keys.TAB, Keys.TAB, Keys.ENTER)  # past the button of the form to Reset…
    assert b.focused() == "Reset now"
    b.press(Keys.ENTER)
    b.wait(lambda: "was reset" in b.text("#search-said"), "reset")


NAMELESS = """
    const name = (e) => {
        const by = (e.getAttribute('aria-labelledby') ?? '').split(' ');
        const given = e.getAttribute('aria-label') ?? by.map((id) => document.getElementById(id)?.innerText).join('');
        return given.trim() || [...(e.labels ?? [])].map((label) => label.innerText).join('')
            || (e.matches('input, select, dialog, section') ? '' : e.innerText.trim() || e.title);
    };
    const named = 'button, a, input, select, summary, dialog, [role=img], [role=region], nav, section';
    const wrong = 'img:not([alt]), table:not(:has(caption)), th:not([scope]), '
        + '[tabindex]:not([tabindex="0"]):not([tabindex="-1"])';
    const bad = [];
    for (const e of document.querySelectorAll(named))
        if ((e.checkVisibility() || e.matches('dialog')) && !name(e))
            bad.push(e.outerHTML.slice(0, 120));
    for (const e of document.querySelectorAll(wrong))
        if (e.checkVisibility())
            bad.push(e.outerHTML.slice(0, 120));
    const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
    bad.push(...ids.filter((id, i) => ids.indexOf(id) !== i));
    const headings = [...document.querySelectorAll('h1, h2, h3')].filter((e) => e.checkVisibility());
    const levels = headings.map((e) => Number(e.tagName[1]));
    levels.forEach((level, i) => { if (level > (levels[i - 1] ?? 0) + 1) bad.push('heading ' + i); });
    for (const landmark of ['header', 'nav', 'main', 'footer', 'h1'])
        if (document.querySelectorAll(landmark).length !== 1)
            bad.push(landmark);
    if (!document.documentElement.lang)
        bad.push('lang');
    return bad;"""

CONTRASTS = """
    const probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const rgba = (color) => {
        probe.clearRect(0, 0, 1, 1);
        probe.fillStyle = color;
        probe.fillRect(0, 0, 1, 1);
        const [r, g, b, a] = probe.getImageData(0, 0, 1, 1).data;
        return [r, g, b, a / 255];
    };
    const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
    const behind = (e) => {
        const layers = [];
        for (; e; e = e.parentElement)
            layers.unshift(rgba(getComputedStyle(e).backgroundColor));
        return layers.reduce((below, top) => over(top, below), [255, 255, 255, 1]);
    };
    const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => {
        const v = c[i] / 255;
        return sum + w * (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    }, 0);
    const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
    const found = [];
    for (const e of document.querySelectorAll('body *')) {
        const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
        if (!(own || e.matches('input, select')) || !e.checkVisibility())
            continue;
        const back = behind(e), style = getComputedStyle(e);
        const what = `${e.tagName}.${e.className} ${e.innerText.slice(0, 30)}`;
        found.push([ratio(over(rgba(style.color), back), back), 4.5, what]);
        if (e.matches('button:not(.link, .choose, th button), input, select'))
            found.push([ratio(rgba(style.borderTopColor), behind(e.parentElement)), 3, `border of ${what}`]);
    }
    const card = behind(document.querySelector('.card'));
    const palette = getComputedStyle(document.documentElement);
    for (const mark of ['allowed', 'denied', 'shadow', 'candidate'])
        found.push([ratio(rgba(palette.getPropertyValue('--' + mark).trim()), card), 3, mark]);
    return found;"""


def full(browser):
    """Everything there is on the page, shown at once."""
    browser.wait(lambda: browser.texts("#denied tbody button"), "listed")
    browser.search("user=alice path=/search/shoes")
    browser.wait(lambda: len(browser.texts("#found article")) == 2, "found")
    browser.get("#found article button").click()
    browser.wait(lambda: rate_of(browser.text("#tile-denied")) > 0, "denials")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_every_control_has_a_name_and_every_text_a_contrast(browser, width, theme):
    b = browser()
    with Load(b.server):
        b.open(width, 1000, theme)
        assert b.js("return document.documentElement.dataset.theme") == theme
        full(b)
        b.js("for (const d of document.querySelectorAll('details')) d.open = true")
        assert b.js(NAMELESS) == []
        found = b.js(CONTRASTS)
        assert len(found) > 60
        assert [(round(ratio, 2), what) for ratio, least, what in found if ratio < least] == []
        assert b.js("return document.documentElement.scrollWidth") <= width
        assert b.js("return document.querySelectorAll('[aria-live]').length") == 3
        least = b.js("return Math.min(...[...document.querySelectorAll('button')].filter((e) => e.checkVisibility())"
                     ".map((e) => e.getBoundingClientRect().height))")
        assert least >= 24, "a target too small to hit"


ENDS = """
    const ends = (selector) => Math.round(Math.max(...[...document.querySelectorAll(selector + ' > *')]
        .filter((e) => e.checkVisibility()).map((e) => e.getBoundingClientRect().bottom)));
    const rows = new Map();
    for (const e of document.querySelectorAll('.narrow > .card, .halves > .card')) {
        const at = e.getBoundingClientRect(), top = Math.round(at.top);
        rows.set(top, [...(rows.get(top) ?? []), Math.round(at.bottom)]);
    }
    return [ends('.wide'), ends('.narrow'), [...rows.values()].every((all) => new Set(all).size === 1),
        [...document.querySelectorAll('.narrow > .card')].map((e) => Math.round(e.getBoundingClientRect().left)),
        [...document.querySelectorAll('.narrow .plot')].map((e) => e.clientHeight),
        [...document.querySelectorAll('.narrow .plot canvas')].map((e) => e.clientHeight)];"""


def test_no_column_is_left_empty(browser):
    """Both columns end at one height, before and after a look-up; narrower, four cards stand two by two."""
    b = browser()
    with Load(b.server):
        b.open(1440, 1000)
        b.wait(lambda: b.texts("#candidate tbody button"), "would be denied")
        for look_up in (False, True):
            if look_up:
                full(b)
            wide, narrow, _, lefts, _, _ = b.js(ENDS)
            assert abs(wide - narrow) <= 1 and len(set(lefts)) == 1
            b.wait(lambda: b.js(ENDS)[4] == b.js(ENDS)[5], "the charts fill their places")
            assert all(150 <= height <= 420 for height in b.js(ENDS)[4])
        b.size(768, 1000)
        _, _, level, lefts, _, _ = b.js(ENDS)
        assert level and len(lefts) == 4 and lefts == lefts[:2] * 2 and len(set(lefts)) == 2


SCROLLS = """
    return [...document.querySelectorAll('main *')].filter((e) => e.checkVisibility()
        && ['auto', 'scroll'].includes(getComputedStyle(e).overflowY)
        && (e.scrollHeight > e.clientHeight + 1 || e.scrollWidth > e.clientWidth + 1))
        .map((e) => e.outerHTML.slice(0, 80));"""


def test_on_a_phone_rows_are_cards_and_only_the_page_scrolls(browser):
    b = browser()
    with Load(b.server):
        b.open(390, 900)
        full(b)
        b.get("#tail-follow").click()
        b.wait(lambda: len(b.texts("#tail-lines tbody tr")) > 50, "lines")
        b.get("#tail-follow").click()
        b.js("for (const d of document.querySelectorAll('details')) d.open = true")
        b.wait(lambda: b.texts("#chart-denied details td"), "the table of minutes")
        assert b.js(SCROLLS) == []
        assert b.js("return document.documentElement.scrollWidth") <= 390
        card = b.js("""
            const row = document.querySelector('#limits tbody tr'), labels = [...row.cells].slice(1);
            return [getComputedStyle(row).display, row.parentNode.parentNode.getAttribute('role'),
                labels.map((cell) => getComputedStyle(cell, '::before').content)];""")
        assert card == ["grid", "table", [f'"{name}"' for name in (
            "Allowed/s", "Denied/s", "Share denied", "Near/s", "Would deny/s")]]
        b.wait(lambda: b.texts("#candidate tbody button"), "would be denied")
        lines = b.js("return [...document.querySelectorAll('#candidate tbody td')].map((cell) => cell.offsetHeight)")
        assert len(lines) >= 2 and max(lines) < 30  # the number is on the line of its label
        fields = b.js("return ['#tail-limit', '#tail-key'].map((id) => document.querySelector(id).offsetWidth)")
        assert len(set(fields)) == 1
        b.get("#limits thead button").click()  # headers sort there as well
        assert b.texts("#limits tbody th button") == ["login", "per-user", "search"]
    b.open(600, 900)
    assert b.js("return getComputedStyle(document.querySelector('#limits tbody tr')).display") == "table-row"


def test_a_logarithmic_axis_is_chosen_and_kept(browser):
    b = browser()
    with Load(b.server):
        b.open()
        b.wait(lambda: rate_of(b.text("#tile-requests")) > 20, "requests")
        b.wait(lambda: painted(b, "#chart-requests") > 500, "drawn")
        assert b.get("#scale").get_attribute("aria-pressed") == "false"
        b.js("document.getElementById('scale').focus()")
        b.press(Keys.ENTER)
        assert b.get("#scale").get_attribute("aria-pressed") == "true"
        b.wait(lambda: painted(b, "#chart-requests") > 500, "drawn")
        b.driver.refresh()
        b.wait(lambda: b.text("#state") == "live", "live again")
        assert b.get("#scale").get_attribute("aria-pressed") == "true", "the choice is kept"
        b.wait(lambda: painted(b, "#chart-denied") > 500 and colored(b, "#chart-denied", "denied") > 5, "drawn")
        b.get("#scale").click()
        assert b.get("#scale").get_attribute("aria-pressed") == "false"


FLEET = """
listen: {{resp: "127.0.0.1:0", http: "127.0.0.1:0", grpc: "127.0.0.1:0"}}
store: {{redis: "127.0.0.1:{port}", budget: 500ms}}
limits: [{{name: per-user, key: user, limit: 600/1h}}, {{name: per-ip, key: ip, limit: 3/1d}}]
"""


def facts(browser, panel):
    names, values = browser.texts(f"#{panel}-facts dt"), browser.texts(f"#{panel}-facts dd:not(.under)")
    return dict(zip(names, values))


def test_the_fleet_and_grpc_have_panels_where_there_are_some(browser, redises):  # noqa: F811
    rls = pytest.importorskip("rls", reason="python3-grpcio is not installed")
    b = browser().open()
    assert not b.get("#fleet").is_displayed() and not b.get("#grpc").is_displayed()
    redis = redises()
    b = browser(FLEET.format(port=redis.port), listen=())
    b.open()
    b.wait(lambda: facts(b, "fleet").get("Nodes") == "1 of 1 up", "the fleet")
    assert not b.get("#grpc").is_displayed()
    spend(b.server, 30, user="alice")
    with rls.Client(f"127.0.0.1:{b.server.ports('grpc')[0]}") as client:
        for _ in range(5):
            client.ask("any", [("remote_address", "192.0.2.1")])
        b.wait(lambda: b.get("#grpc").is_displayed(), "gRPC")
        assert facts(b, "grpc")["Connections"] == "1"
        b.wait(lambda: b.texts("#grpc-facts .under")[:2] == ["5 in all", "2 in all"], "all five, two of them denied")
    b.wait(lambda: int(facts(b, "fleet")["Commands"].replace(",", "")) > 0, "commands")
    b.wait(lambda: painted(b, "#chart-fleet") > 500, "drawn")
    redis.end()
    b.wait(lambda: facts(b, "fleet")["Nodes"] == "0 of 1 up", "the node is missed")
    spend(b.server, 3, user="alice")
    b.wait(lambda: b.texts("#fleet-facts .alarm"), "an alarm")
    redis.start()
    b.wait(lambda: facts(b, "fleet")["Nodes"] == "1 of 1 up", "it is back")


def clients_shown(browser):
    return {row[0]: row[1:] for row in browser.js("""
        return [...document.querySelectorAll('#clients-list tbody tr')].map((r) => [...r.cells].map((c) => c.innerText))
        """)}


@pytest.mark.parametrize("width", [1440, 390])
def test_clients_are_told_by_name(browser, width):
    b = browser()
    with b.server.resp() as client, Load(b.server, {"User-Agent": "shop/2.1"}):
        client.call("CLIENT", "SETINFO", "LIB-NAME", HOSTILE.replace(" ", "/"))
        b.open(width)
        b.wait(lambda: "shop 2.1" in clients_shown(b), "the program over HTTP")
        named = [name for name in clients_shown(b) if name.startswith("_img")]
        assert len(named) == 1 and clients_shown(b)[named[0]][:2] == ["RESP", "1"]
        b.wait(lambda: rate_of(clients_shown(b)["shop 2.1"][2]) > 1, "its decisions")
        assert clients_shown(b)["shop 2.1"][0] == "HTTP" and rate_of(clients_shown(b)["shop 2.1"][3]) > 0
        # A header is a button: by keyboard to the names, in their order.
        b.js("document.querySelector('#clients-list thead button').focus()")
        b.press(Keys.ENTER)
        assert b.js("return document.querySelector('#clients-list thead th').ariaSort") == "ascending"
        names = list(clients_shown(b))
        assert names == sorted(names)
        assert b.js("return document.documentElement.scrollWidth <= innerWidth")
        assert b.get("#clients").is_displayed()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 768, 390])
def test_axe_finds_nothing_serious(browser, axe, redises, width, theme):  # noqa: F811
    b = browser(FLEET.format(port=redises().port), listen=())
    with Load(b.server):
        b.open(width, 1000, theme)
        b.wait(lambda: facts(b, "fleet").get("Nodes") == "1 of 1 up", "the fleet")
        b.search("user=alice")
        b.wait(lambda: b.texts("#found article"), "found")
        b.get("#pause").click()
        b.js("for (const d of document.querySelectorAll('details')) d.open = true")
        assert grave(b.driver, axe) == []
        b.get("#sign").click()
        assert grave(b.driver, axe) == []


def test_theme_is_chosen_by_the_system_and_by_the_button(browser):
    b = browser().open(theme="dark")
    background = "return getComputedStyle(document.body).backgroundColor"
    dark = b.js(background)
    assert b.get("#theme").get_attribute("aria-pressed") == "true"
    b.get("#theme").click()
    assert b.js(background) != dark and b.get("#theme").get_attribute("aria-pressed") == "false"
    b.driver.refresh()
    b.wait(lambda: b.text("#state") == "live", "live again")
    assert b.js(background) != dark, "the choice is kept"


def png_spread(path):
    """How many different bytes a PNG's pixels have: a blank picture has few."""
    with open(path, "rb") as file:
        data = file.read()
    at, raw = 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        raw += data[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    return len(set(zlib.decompress(raw)))


def test_screenshots_at_two_sizes_and_in_both_themes(browser):
    b = browser()
    with Load(b.server):
        for width in (1440, 390):
            for theme in ("light", "dark"):
                b.open(width, 900, theme)
                full(b)
                b.get("#found article .sure button:last-child").click()
                b.size(width, b.js("return document.documentElement.scrollHeight"))
                b.wait(lambda: painted(b, "#chart-denied") > 500, "drawn")
                assert png_spread(b.shot(f"dashboard-{width}-{theme}")) > 40
