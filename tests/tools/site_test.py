"""The documents as a site, built as `make site` builds it: every link and every anchor leads somewhere, nothing is
fetched from elsewhere, and the search knows what the pages say."""
import html.parser
import json
import os
import pathlib
import shutil
import subprocess
import urllib.parse

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Page(html.parser.HTMLParser):
    """A page's links, what it loads, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.links, self.loads, self.anchors = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[name] for name in ("id", "name") if attrs.get(name)}
        if tag == "a" and attrs.get("href"):
            self.links.add(attrs["href"])
        for name in ("src", "href"):
            if tag in ("img", "script") or tag == "link" and attrs.get("rel") != "canonical":
                self.loads |= {attrs[name]} if attrs.get(name) else set()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if shutil.which("mkdocs") is None:
        pytest.skip("mkdocs is not installed")
    out = tmp_path_factory.mktemp("pages")
    done = subprocess.run([ROOT / "tools/site", out], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / "site"


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_link_leads_somewhere(site, pages):
    assert len(pages) > 40
    wrong = []
    for path, page in pages.items():
        for link in page.links | page.loads:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            named = urllib.parse.unquote(parts.path) or path.name
            target = pathlib.Path(os.path.normpath(path.parent / named))
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                wrong.append("%s: %s" % (path.relative_to(site), link))
            elif parts.fragment and target in pages and parts.fragment not in pages[target].anchors:
                wrong.append("%s: %s: no such anchor" % (path.relative_to(site), link))
    assert not wrong, "\n".join(sorted(wrong))


def test_nothing_is_fetched_from_elsewhere(pages):
    for path, page in pages.items():
        assert not [link for link in page.loads if urllib.parse.urlsplit(link).netloc], path


def test_the_search_knows_the_pages(site):
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert any("retry_after" in entry["text"] for entry in entries)
    assert {"tour.html", "policy.html", "limits.html"} <= {entry["location"].split("#")[0] for entry in entries}


def test_every_document_is_in_the_navigation():
    """But for decisions, which their own list has, and the manual's pages."""
    told = (ROOT / "docs/site.yml").read_text(encoding="utf-8")
    for path in (ROOT / "docs").glob("*.md"):
        assert ": %s\n" % path.name in told, path.name
