"""Structured fields (RFC 9651), as far as rate-limit headers use them: a List, or a Dictionary, of Items with
parameters.

A field that breaks the grammar anywhere is None as a whole: draft 10 says that malformed fields are ignored, and half a
field says something that nobody meant. Values are of strangers: a field longer than FIELD_CHARS_MAX or with more than
MEMBERS_MAX members is ignored too, and nothing here backtracks. The same in JavaScript: ../../../node/client/fields.js;
../../../common/client/headers.json holds both to the same answers.
"""

import re
import urllib.parse

FIELD_CHARS_MAX = 8192
MEMBERS_MAX = 64

KEY = re.compile(r"[a-z*][a-z0-9_.*-]*")
PARAMETER = re.compile(r"; *([a-z*][a-z0-9_.*-]*)(=)?")
BARE = re.compile(r"""(?P<decimal>-?[0-9]{1,12}\.[0-9]{1,3}(?![0-9.]))
                    | (?P<integer>-?[0-9]{1,15}(?![0-9.]))
                    | "(?P<string>(?:[ !\#-\[\]-~]|\\["\\])*)"
                    | %"(?P<display>(?:[ !\#$&-~]|%[0-9a-f]{2})*)"
                    | (?P<token>[A-Za-z*][!\#$%&'*+.^_`|~0-9A-Za-z:/-]*)
                    | :(?P<bytes>[A-Za-z0-9+/]*={0,2}):
                    | \?(?P<boolean>[01])
                    | @(?P<date>-?[0-9]{1,15})(?![0-9.])""", re.X)
COMMA = re.compile(r"[ \t]*,[ \t]*")


class Item:
    __slots__ = ("kind", "value", "parameters")

    def __init__(self, kind, value):
        self.kind, self.value, self.parameters = kind, value, {}


class _Malformed(Exception):
    pass


def _decoded(text):
    """The text of a Display String, whose bytes have to be UTF-8."""
    try:
        return urllib.parse.unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise _Malformed from None


def _bare(text, at):
    found = BARE.match(text, at)
    if not found:
        raise _Malformed
    kind = found.lastgroup
    value = found.group(kind)
    if kind in ("integer", "date"):
        value = int(value)
    elif kind == "display":
        value = _decoded(value)
    elif kind == "string":
        value = re.sub(r'\\(["\\])', r"\1", value)
    return Item(kind, value), found.end()


def _item(text, at):
    return _with_parameters(*_bare(text, at), text)


def _with_parameters(item, at, text):
    while text[at:at + 1] == ";":
        found = PARAMETER.match(text, at)
        if not found:
            raise _Malformed
        at = found.end()
        item.parameters[found.group(1)] = Item("boolean", "1")  # without a value
        if found.group(2):
            item.parameters[found.group(1)], at = _bare(text, at)
    return item, at


def _pair(text, at):
    key = KEY.match(text, at)
    if not key:
        raise _Malformed
    at = key.end()
    item, at = _item(text, at + 1) if text[at:at + 1] == "=" else _with_parameters(Item("boolean", "1"), at, text)
    return (key.group(), item), at


def _members(text, member):
    """All members of the text, each read by `member`; None where it is malformed."""
    if not isinstance(text, str) or len(text) > FIELD_CHARS_MAX:
        return None
    text, at, found = text.strip(" "), 0, []
    try:
        while len(found) < MEMBERS_MAX:
            one, at = member(text, at)
            found.append(one)
            if not text[at:].strip(" \t"):
                return found
            comma = COMMA.match(text, at)
            if not comma:
                return None
            at = comma.end()
    except _Malformed:
        pass
    return None


def parse_list(text):
    """The items of a List, or None where it is none."""
    return _members(text, _item)


def parse_dictionary(text):
    """A Dictionary as a dict of items, the last of a key counting; or None where it is none."""
    pairs = _members(text, _pair)
    return None if pairs is None else dict(pairs)
