"""C sources as trees, for the proofs: what is proved is read out of src/ each time, so that a change there changes what
has to be proved. The compiler's preprocessor goes first, with the assertions of debug builds; then pycparser.

    unit = read("src/algo/window.c")                    functions, struct types, enumeration constants
    unit = read("src/algo/window.c", ("<=", "<", 3))    with a mistake: the third "<=" of the file is made a "<"

128 bits are written as `long long long`, which no C has and which this parser takes for what it is told (types_of).
Functions marked as inline assembly are left out by preprocessing for no processor in particular: there the schoolbook
division stands."""
import functools
import os
import subprocess
import tempfile

import pycparser
from pycparser import c_ast, c_parser

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FAKE_HEADERS = ("/usr/share/python3-pycparser/fake_libc_include",
                os.path.join(os.path.dirname(pycparser.__file__), "utils", "fake_libc_include"))
DEFINES = {"__attribute__(x)": "", "__extension__": "", "__int128": "long long long", "SL_DEBUG": "1",
           "UINT64_MAX": "0xffffffffffffffffull", "UINT32_MAX": "0xffffffffu", "UINT16_MAX": "0xffff",
           "UINT64_C(x)": "x##ull", "SIZE_MAX": "0xffffffffffffffffull"}
NAMED = {"uint8_t": (8, False), "uint16_t": (16, False), "uint32_t": (32, False), "uint64_t": (64, False),
         "uintptr_t": (64, False), "size_t": (64, False), "int8_t": (8, True), "int16_t": (16, True),
         "int32_t": (32, True), "int64_t": (64, True)}


class Int:
    """An integer type; one bit is bool."""

    def __init__(self, bits, signed):
        self.bits, self.signed = bits, signed

    def range(self):
        return (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) if self.signed else (0, (1 << self.bits) - 1)


BOOL, INT, U64 = Int(1, False), Int(32, True), Int(64, False)


class StructType:
    def __init__(self, tag):
        self.tag = tag


class Array:
    def __init__(self, of, count):
        self.of, self.count = of, count


POINTER, VOID = object(), object()


class Unit:
    """One translation unit."""

    def __init__(self, declarations):
        self.functions, self.typedefs, self.structs, self.constants, self.globals = {}, {}, {}, {}, {}
        for node in declarations:
            if isinstance(node, c_ast.FuncDef):
                self.functions[node.decl.name] = node
                self.learn(node.decl.type)
            elif isinstance(node, c_ast.Typedef):
                self.learn(node.type)
                self.typedefs[node.name] = node.type
            else:
                self.learn(node.type)
                if getattr(node, "init", None) is not None:
                    self.globals[node.name] = node

    def learn(self, node):
        """Takes up structs and enumerations wherever they are declared."""
        for child in self.walk(node):
            if isinstance(child, (c_ast.Struct, c_ast.Union)) and child.decls:
                self.structs[child.name or id(child)] = child
            elif isinstance(child, c_ast.Enum) and child.values:
                value = -1
                for item in child.values.enumerators:
                    try:
                        value = self.constant(item.value) if item.value is not None else value + 1
                    except NotImplementedError:
                        break  # who uses it, or those after it, finds no such name
                    self.constants[item.name] = value

    def walk(self, node):
        yield node
        for _, child in node.children():
            yield from self.walk(child)

    def constant(self, node):
        """A constant expression."""
        if isinstance(node, c_ast.Constant):
            return int(node.value.rstrip("uUlL"), 0)
        if isinstance(node, c_ast.ID):
            return self.constants[node.name]
        if isinstance(node, c_ast.UnaryOp) and node.op == "-":
            return -self.constant(node.expr)
        if isinstance(node, c_ast.Cast):
            return self.constant(node.expr)
        if isinstance(node, c_ast.BinaryOp):
            a, b = self.constant(node.left), self.constant(node.right)
            return {"+": a + b, "-": a - b, "*": a * b, "<<": a << b if 0 <= b < 256 else 0, "|": a | b}[node.op]
        raise NotImplementedError("constant: %s at %s" % (type(node).__name__, node.coord))

    def type_of(self, node):
        if isinstance(node, (c_ast.TypeDecl, c_ast.Typename, c_ast.Decl)):
            return self.type_of(node.type)
        if isinstance(node, c_ast.PtrDecl):
            return POINTER
        if isinstance(node, c_ast.ArrayDecl):
            return Array(self.type_of(node.type), self.constant(node.dim) if node.dim is not None else None)
        if isinstance(node, (c_ast.Struct, c_ast.Union)):
            return StructType(node.name or id(node))
        if isinstance(node, c_ast.Enum):
            return INT
        return self.named(node.names)

    def named(self, names):
        if len(names) == 1 and names[0] in NAMED:
            return Int(*NAMED[names[0]])
        if len(names) == 1 and names[0] in self.typedefs:
            return self.type_of(self.typedefs[names[0]])
        if names == ["void"]:
            return VOID
        if names in (["bool"], ["_Bool"]):
            return BOOL
        if "char" in names:
            return Int(8, "unsigned" not in names)
        bits = {0: 32, 1: 64, 2: 64, 3: 128}[names.count("long")]
        return Int(bits, "unsigned" not in names)

    def field_type(self, tag, field):
        """The type of a field; those of a union without a name count as the struct's own."""
        for decl in self.structs[tag].decls:
            if decl.name == field:
                return self.type_of(decl.type)
            if decl.name is None and isinstance(decl.type, (c_ast.Struct, c_ast.Union)):
                found = self.field_type(decl.type.name or id(decl.type), field)
                if found is not None:
                    return found
        return None


def changed(text, mistake):
    """The text with the n-th of a piece, from 1, made another."""
    old, new, n = mistake
    at = -1
    for _ in range(n):
        at = text.find(old, at + 1)
        assert at >= 0, "no %d times %r" % (n, old)
    return text[:at] + new + text[at + len(old):]


class Parser(c_parser.CParser):
    """Parses a text in two parts; the second knows the names of types of the first."""

    def part(self, text, path, names):
        self.clex.filename = path
        self.clex.reset_lineno()
        self._scope_stack, self._last_yielded_token = [dict(names)], None
        return self.cparser.parse(input=text, lexer=self.clex).ext, self._scope_stack[0]


@functools.lru_cache(maxsize=None)
def headers(text, path):
    """What a file includes: most mistakes are not there, and it is three quarters of the text."""
    return Parser().part(text, path, {})


@functools.lru_cache(maxsize=None)
def read(path, mistake=None):
    """A file of src, as a Unit. `mistake`: (old, new, n) or (old, new, n, header): in a header that it includes."""
    fake = next(folder for folder in FAKE_HEADERS if os.path.isdir(folder))
    with tempfile.TemporaryDirectory() as folder:
        before, source = [], path
        if mistake is not None:
            spoiled = mistake[3] if len(mistake) == 4 else path
            with open(os.path.join(ROOT, spoiled), encoding="utf-8") as f:
                text = changed(f.read(), mistake[:3])
            copy = os.path.join(folder, os.path.relpath(spoiled, "src"))
            os.makedirs(os.path.dirname(copy), exist_ok=True)
            with open(copy, "w", encoding="utf-8") as f:
                f.write(text)
            before = ["-I" + folder]
            source = path if len(mistake) == 4 else copy
        argv = [os.environ.get("CC", "gcc"), "-E", "-nostdinc", "-U__x86_64__", *before, "-Isrc", "-Iinclude", "-I.",
                "-I" + fake, *("-D%s=%s" % item for item in DEFINES.items()), source]
        text = subprocess.run(argv, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    text = text.replace(source, path)
    at = text.rindex('"%s" 2\n' % path)  # there the last header ends
    before, names = headers(text[:text.rindex("\n", 0, at)], path)
    return Unit(before + Parser().part(text[text.rindex("\n", 0, at) + 1:], path, names)[0])
