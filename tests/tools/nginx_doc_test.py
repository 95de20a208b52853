"""docs/nginx.md names every directive and every variable of the module, and no others; what else tells of them names no
others either."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def directives():
    return set(re.findall(r'(?:PLACE\(|ngx_string\()"(sluice\w*)"', read("hosts/nginx/directives.c")))


def variables():
    return set(re.findall(r'ngx_string\("(sluice_\w+)"\), NULL', read("hosts/nginx/variables.c")))


def test_every_directive_and_variable_is_in_the_reference():
    text = read("docs/nginx.md")
    rows = set(re.findall(r"^\| `(sluice\w*) [^|]*\|[^|]+\|[^|]+\|$", text, re.M))
    assert len(directives()) >= 11 and rows == directives()
    told = set(re.findall(r"\$(sluice_\w+)", "".join(re.findall(r"^\| `\$sluice.*", text, re.M))))
    assert len(variables()) >= 8 and told == variables()


def test_nothing_is_named_that_is_not_there():
    for path in ("docs/nginx.md", "docs/moving.md", "examples/nginx/module.conf", "docs/design/033-nginx.md"):
        text = re.sub(r"ngx_http_sluice_module", "", read(path))
        assert set(re.findall(r"\$(sluice_\w+)", text)) <= variables(), path
        others = {"sluice_zone", "sluice_match"}  # of nobody; of the header
        assert set(re.findall(r"(?<![$\w])(sluice_[a-z]\w*)", text)) <= directives() | others, path


def test_the_words_of_the_status():
    words = set(re.findall(r'= "([A-Z_]+)"', read("hosts/nginx/variables.c")))
    assert len(words) == 7
    for word in words:
        assert "`%s`" % word in read("docs/nginx.md"), word
