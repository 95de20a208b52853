"""CONTRIBUTING.md lists the files that an addition touches. Here each list is compared with the code: all that it names
is there, and every file that names one thing of the kind is listed. So the lists can't be forgotten; and no file is
listed for every algorithm that not every one needs."""
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A kind of addition, and one that was made: what its files say and no others do.
MADE = {
    "An algorithm": r"SLUICE_LEAKY_BUCKET|sl_bucket_(step|count|refund|correct)\b|[\"']leaky-bucket",
    "A door": r"SL_LISTEN_RESP\b|\bsl_resp_door\b",
    "A word on the wire": r"SL_WORD_NEXT\b|SAYS\(NEXT\)|\"NEXT\"",
    "A key of the policy": r"\"penalty\"|\blint_penalty\b",
}
FOLDERS = ("src", "hosts", "include", "bench")
ENDINGS = (".c", ".h", ".lua")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def sections():
    """The text below each heading."""
    parts = re.split(r"^## (.*)$", read("CONTRIBUTING.md"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def listed(section):
    return re.findall(r"^\| `([^`]+)` \|", sections()[section], re.M)


def needed():
    """What every algorithm needs: the first table of them, but for the files that are one algorithm's own."""
    first = sections()["An algorithm"].split("Some need more")[0]
    return [path for path in re.findall(r"^\| `([^`]+)` \|", first, re.M) if "bucket." not in path]


def algorithms():
    """Each with its word in the notation."""
    return dict(re.findall(r'ROW\(SLUICE_(\w+), "([\w-]+)"', read("src/algo/traits.h")))


def sources():
    for folder in FOLDERS:
        for where, _, names in os.walk(os.path.join(ROOT, folder)):
            for name in names:
                if name.endswith(ENDINGS):
                    yield os.path.relpath(os.path.join(where, name), ROOT)


@pytest.mark.parametrize("section", MADE)
def test_what_is_listed_is_there(section):
    paths = listed(section)
    assert len(paths) >= 5 and len(paths) == len(set(paths))
    for path in paths:
        assert os.path.exists(os.path.join(ROOT, path)), path


@pytest.mark.parametrize("section", MADE)
def test_whoever_names_one_is_listed(section):
    named = {path for path in sources() if re.search(MADE[section], re.sub(r"/\*.*?\*/", "", read(path), flags=re.S))}
    assert named, "nothing is like this: name another in MADE"
    assert named - set(listed(section)) == set()


def test_every_algorithm_is_named_in_what_all_need():
    assert len(algorithms()) >= 9 and len(needed()) >= 5
    for path in needed():
        text = read(path)
        for name, word in algorithms().items():
            if path.endswith("algorithms.h"):
                assert re.search(r"^/\* .*%s.*: \w+\.c" % word, text, re.M) or word == "unlimited", (path, word)
            elif path.endswith(".lua"):
                assert "'%s'" % word in text or "^%s " % word in text, (path, word)
            else:
                assert re.search(r"\bSLUICE_%s\b" % name, text), (path, name)


def test_all_else_that_is_named_is_there():
    for path in re.findall(r"`((?:src|hosts|tests|docs|tools|examples|include)/[\w./]+)`", read("CONTRIBUTING.md")):
        assert os.path.exists(os.path.join(ROOT, path)), path
