"""Where C can be wrong by one small mistake: what tools/mutate draws from.

Only the bodies of functions are changed; comments, texts, the preprocessor's lines, assertions and hints to the
compiler are not. A mutant is (file, offset, length, what stands there instead, the operator's name)."""
import bisect
import collections
import hashlib
import re

Mutant = collections.namedtuple("Mutant", "file offset length text operator line column")

HIDDEN = re.compile(r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
                    r"""|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*""", re.S | re.M | re.X)
UNTOUCHED = re.compile(r"\b(?:SL_ASSERT|SL_DEBUG_ASSERT|_Static_assert|SL_POINT\w*|__builtin_prefetch|sl_\w+_prefetch"
                       r"|__asm__|__attribute__)\s*(?=\()")
FETCHED = re.compile(r"\bfor (?=\()")  # a loop of hints alone is a hint
FETCHES = re.compile(r"\s*__builtin_prefetch\(")
EXPECTED = re.compile(r", [01]\)")  # the second word of __builtin_expect
TURNED = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",)}
RELATION = re.compile(r"(?<=\s)(<=|>=|==|!=|<|>)(?=\s)")
CALCULATION = re.compile(r"(?<=\s)([-+*/%])(?=\s)")
CALCULATED = {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/"}
BITS = re.compile(r"(?<=\s)([&|^])(?=\s)")
BITTED = {"&": "|", "|": "&", "^": "|"}
LOGIC = re.compile(r"&&|\|\|")
SHIFT = re.compile(r"(?<=\s)(<<|>>)(?=\s)")
NOT = re.compile(r"(?<![\w)\]])!(?!=)")
CHANGED = re.compile(r"(?<=\s)([-+|&])(?==\s)")
STEPPED = re.compile(r"\+\+|--")
NUMBER = re.compile(r"(?<![\w.])(0[xX][0-9a-fA-F]+|\d+)([uUlL]*)(?![\w.])")
TRUTH = re.compile(r"\b(true|false)\b")
LESS_OR_MORE = {"sl_min": "sl_max", "sl_max": "sl_min", "sl_div": "sl_div_ceil", "sl_div_ceil": "sl_div"}
NAMES = re.compile(r"\b(%s)(?=\()" % "|".join(LESS_OR_MORE))
ASKED = re.compile(r"\b(?:if|while) (?=\()")
RETURN = re.compile(r"\breturn\b([^;]*);")
JUMP = re.compile(r"\b(?:break|continue);")
STATEMENT = re.compile(r"[^;{}]*;")
NO_STATEMENT = re.compile(r"(?:if|else|for|while|do|switch|case|default|return|break|continue|goto|const|static|struct"
                          r"|enum|union|unsigned|extern|typedef)\b|\w+ +\**\w+(?: = |;|,|\[|\()|;")


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def closing(text, at):
    """The offset of the bracket that closes the one at `at`."""
    pairs, depth = {"(": ")", "{": "}"}, 0
    for k in range(at, len(text)):
        depth += (text[k] == text[at]) - (text[k] == pairs[text[at]])
        if depth == 0:
            return k
    return len(text) - 1


def shown(text):
    """The same text with all that is not to be changed made blank."""
    text = HIDDEN.sub(lambda match: blank(match.group()), text)
    for match in list(FETCHED.finditer(text)):
        end = closing(text, match.end()) + 1
        if FETCHES.match(text, end):
            text = text[:match.start()] + blank(text[match.start():end]) + text[end:]
    for match in list(UNTOUCHED.finditer(text)):
        end = closing(text, match.end()) + 1
        text = text[:match.start()] + blank(text[match.start():end]) + text[end:]
    for match in list(re.finditer(r"__builtin_expect(?=\()", text)):
        end = closing(text, match.end()) + 1
        hint = EXPECTED.search(text, end - 4, end)
        if hint:
            text = text[:hint.start()] + blank(hint.group()[:-1]) + text[hint.end() - 1:]
    return text


def bodies(text):
    """(from, to) of each function's body, by the blank text."""
    found, at = [], 0
    while True:
        at = text.find("{", at)
        if at < 0:
            return found
        end = closing(text, at)
        if text[:at].rstrip().endswith(")"):
            found.append((at + 1, end))
        at = end + 1


def statements(text, start, end):
    """Assignments and calls that stand for themselves."""
    for match in re.finditer(r"^[ \t]*(?:else )?(?=[\w*(+-])", text[start:end], re.M):
        at = start + match.end()
        before = text[start - 1:start + match.start()].rstrip()
        if not before.endswith((";", "{", "}", ":", ")", "else")):
            continue
        whole = STATEMENT.match(text, at, end)
        if whole and not NO_STATEMENT.match(whole.group()):
            yield at, whole.end()


def in_body(text, start, end):
    """(offset, length, instead, operator) of one body."""
    for name, pattern, table in (("calculation", CALCULATION, CALCULATED), ("bits", BITS, BITTED),
                                 ("and, or", LOGIC, {"&&": "||", "||": "&&"}),
                                 ("shift", SHIFT, {"<<": ">>", ">>": "<<"}),
                                 ("least, most", NAMES, LESS_OR_MORE), ("step", STEPPED, {"++": "--", "--": "++"}),
                                 ("change", CHANGED, {"+": "-", "-": "+", "|": "&", "&": "|"}),
                                 ("constant", TRUTH, {"true": "false", "false": "true"})):
        for match in pattern.finditer(text, start, end):
            yield match.start(), len(match.group()), table[match.group()], name
    for match in RELATION.finditer(text, start, end):
        turned = TURNED[match.group()]
        yield match.start(), len(match.group()), turned[-1], "relation turned"
        if len(turned) == 2:
            yield match.start(), len(match.group()), turned[0], "off by one"
    for match in NUMBER.finditer(text, start, end):
        digits = match.group(1)
        value = int(digits, 8 if digits.isdigit() and digits[0] == "0" else 0)
        yield match.start(), len(match.group()), "%d%s" % (value + 1, match.group(2)), "constant"
        if value > 0:
            yield match.start(), len(match.group()), "%d%s" % (value - 1, match.group(2)), "constant"
    for match in NOT.finditer(text, start, end):
        yield match.start(), 1, "", "negated condition"
    for match in ASKED.finditer(text, start, end):
        last = closing(text, match.end())
        yield match.end(), last + 1 - match.end(), None, "negated condition"
    for match in RETURN.finditer(text, start, end):
        value = match.group(1).strip()
        if value not in ("", "0", "true", "false", "NULL"):
            yield match.start(), len(match.group()), "return 0;", "returned value"
    for match in JUMP.finditer(text, start, end):
        yield match.start(), len(match.group()), ";", "deleted statement"
    for at, last in statements(text, start, end):
        yield at, last - at, ";", "deleted statement"


def of_text(file, text):
    """Every mutant of a source, in order."""
    masked = shown(text)
    starts = [0] + [match.end() for match in re.finditer("\n", text)]
    found = []
    for start, end in bodies(masked):
        for at, length, instead, operator in in_body(masked, start, end):
            old = text[at:at + length]
            if instead is None:
                instead = "(!%s)" % old
            instead += "\n" * (old.count("\n") - instead.count("\n"))  # lines keep their numbers
            line = bisect.bisect_right(starts, at)
            found.append(Mutant(file, at, length, instead, operator, line, at - starts[line - 1] + 1))
    return sorted(set(found))


def line_hash(text, line):
    return hashlib.sha256(text.splitlines()[line - 1].strip().encode()).hexdigest()[:10]


def words(text, mutant):
    """How a mutant is told: what stood there, and what stands there now."""
    old = " ".join(text[mutant.offset:mutant.offset + mutant.length].split())
    new = " ".join(mutant.text.split())
    return "%s: '%s' -> '%s'" % (mutant.operator, old, new)
