"""docs/design/013-bounds.md has a row for every error that a caller can provoke, and each row a test that is there and
is run. What is looked for is taken from the header and the sources: a bound, an error, a status or an error's word that
is new there and has no row is a finding."""
import glob
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KINDS = ("tests/unit/*.c", "tests/e2e/*.py", "tests/tools/*.py", "tests/crash/*.c")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as f:
        return f.read()


def all_of(*patterns):
    return "".join(read(os.path.relpath(path, ROOT)) for pattern in patterns
                   for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True)))


DOCUMENT = read("docs/design/013-bounds.md")


def rows_of(document):
    """Of all tables of four columns, without their heads."""
    lines = [line for line in document.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in cells if row[3] not in ("test", "---")]


def named_tests(name):
    """The names of the tests of a file that are run: in C those that main() lists, too."""
    paths = [path for kind in KINDS for path in glob.glob(os.path.join(ROOT, kind))
             if os.path.splitext(os.path.basename(path))[0] == name]
    if len(paths) != 1:
        return set()
    text = read(os.path.relpath(paths[0], ROOT))
    if paths[0].endswith(".py"):
        return set(re.findall(r"^def (test_\w+)\(", text, re.M))
    return {test for test in re.findall(r"^static void (\w+)\(void \*\*\w*\)", text, re.M)
            if re.search(r"^\s.*\(%s\b[^;]*\),$" % test, text, re.M)}


def wrong_references(row):
    """What a row says of tests that is not so."""
    wrong = []
    for part in row[3].split(";"):
        name, _, wanted = re.sub(r"\(.*?\)", "", part).partition(":")
        tests = named_tests(name.strip())
        for words in wanted.split(","):
            slug = "_".join(words.lower().split())
            if not slug or not any(slug in test for test in tests):
                wrong.append("%s: %s" % (name.strip(), words.strip()))
    return wrong


def bounds():
    names = re.findall(r"^\tSLUICE_BOUND_(\w+) = \d+,", read("include/sluice.h"), re.M)
    return {name.lower() for name in names if name != "NONE"}


def errors():
    return set(re.findall(r"^\t(SLUICE_E_\w+) = -\d+,", read("include/sluice.h"), re.M))


def statuses():
    """Those of 400 and above that the sources answer with."""
    text = all_of("hosts/server/http/*.c", "src/proto/http.c")
    found = re.findall(r"(?:problem|refuse|reply_begin)\((?:&\w+, )?(?:exchange|parser), ([45]\d\d)", text)
    found += [status for pair in re.findall(r"\? (4\d\d) : (4\d\d)\b", text) for status in pair]
    return set(found)


def words():
    """With which errors of RESP begin."""
    text = all_of("hosts/server/resp/*.c", "hosts/redis/*.c", "src/proto/answer.c")
    said = r'(?:reply_error\(turn, |ReplyWithError\([^"\n]*, |put_text\(at, |static const char \w+\[\] = )'
    return set(re.findall(said + r'\s*"-?([A-Z]{3,}) ', text))


def missing(document):
    named = " ".join(row[2] for row in rows_of(document))
    said = " ".join(cell for row in rows_of(document) for cell in row)
    return ([bound for bound in bounds() if "`%s`" % bound not in named]
            + [error for error in errors() if not re.search(error + r"\b", said)]
            + [status for status in statuses() if not re.search(r"\b%s\b" % status, said)]
            + [word for word in words() if "-" + word not in said])


def test_the_sources_are_read():
    assert bounds() >= {"limits", "room", "reservations", "holds", "queue", "key"}
    assert errors() >= {"SLUICE_E_RANGE", "SLUICE_E_FULL", "SLUICE_E_APART"}
    assert statuses() >= {"400", "403", "404", "414", "429", "431", "500", "501", "503", "505"}, statuses()
    assert words() >= {"ERR", "NOAUTH", "NOPERM", "WRONGPASS", "NOTFOUND"}, words()
    assert "test_a_burst_is_never_admitted_beyond_the_quota" in named_tests("test_cluster_order")
    assert "a_log_keeps_to_its_share" in named_tests("room_test") and "test_a_busy_node" in named_tests("nodes_test")


def test_nothing_is_missing():
    assert missing(DOCUMENT) == []


@pytest.mark.parametrize("row", rows_of(DOCUMENT), ids=lambda row: re.sub(r"\W+", " ", row[0])[:60].strip())
def test_each_row_has_tests_that_are_there(row):
    assert len(row) == 4 and all(row) and wrong_references(row) == []


def test_the_checks_can_fail():
    assert len(rows_of(DOCUMENT)) > 50
    for thing in ("`queue`", "SLUICE_E_APART", "431", "-NOPROTO"):
        assert missing("\n".join(line for line in DOCUMENT.splitlines() if thing not in line)), thing
    row = ["a", "b", "c", "room_test: a log keeps, long log finds room; test_cluster_order: a burst (all)"]
    assert wrong_references(row) == []
    for change in (("a log keeps", "a log breaks"), ("room_test", "no_test"), (": a burst (all)", ""), ("; ", ", ")):
        assert wrong_references(row[:3] + [row[3].replace(*change)]), change
