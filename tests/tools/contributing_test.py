"""CONTRIBUTING.md lists the files that an addition touches. Here each list is compared with the code: all that it names
is there, and every file that names one thing of the kind is listed. So the lists can't be forgotten."""
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


def test_all_else_that_is_named_is_there():
    for path in re.findall(r"`((?:src|hosts|tests|docs|tools|examples|include)/[\w./]+)`", read("CONTRIBUTING.md")):
        assert os.path.exists(os.path.join(ROOT, path)), path
