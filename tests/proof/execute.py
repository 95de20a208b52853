"""Runs C functions on numbers that are not known: every path through a function, with what must hold on it.

A value is a whole number of Python's or, not known, an integer term of z3's: mathematical integers, so that nothing
wraps silently. What C adds to them is asked as a question each time, and has to be proved before the path goes on:

  - every sum, difference, product and left shift is within its type, also where the type is unsigned and C would wrap
  - what is stored in a narrower type without a cast fits it; a cast cuts, as in C
  - no divisor is 0; `a | b` joins two numbers that have no bit in common, and is then their sum
  - every assertion of the source holds (SL_ASSERT, SL_DEBUG_ASSERT)

A quotient of something that isn't known is a number q of its own, of which n = q d + r with 0 <= r < d is known: no
division is left for the solver. Paths fork where a condition is not known; one that can't be is left out, if the solver
says so at once, else it is followed all the same, which costs time and loses nothing.

What is not understood ends in an exception: nothing of the source is passed over. With numbers of Python's only, the
same code is an interpreter, by which test_translation.py holds it against the compiler."""
import copy

import z3
from pycparser import c_ast

from csource import Array, BOOL, INT, Int, POINTER, StructType, U64, VOID
from relax import split

ROUNDS_MAX = 200  # of one loop


class Val:
    def __init__(self, term, type_):
        self.term, self.type = term, type_

    def __deepcopy__(self, memo):
        """Of a pointer, not of what it leads to."""
        return Val(self.term, self.type)


class Struct:
    """Fields that are not there are zeros, but for those of a variable that was never set."""

    def __init__(self, tag, fields=None):
        self.tag, self.fields = tag, fields if fields is not None else {}


class Ref:
    """Where something is: a name of a frame, a field of a struct, an element of a list."""

    def __init__(self, holder, key):
        self.holder, self.key = holder, key


class Return(Exception):
    def __init__(self, value):
        super().__init__()
        self.value = value


class Break(Exception):
    pass


class Infeasible(Exception):
    """The path that was begun is none."""


def known(term):
    return isinstance(term, (int, bool))


def named(term):
    """A term as a name of itself."""
    return term if known(term) else term.sexpr()


class Run:
    """One path. `ask(facts, claim, where)` proves or fails; `can(facts)` says whether facts can be true together;
    `choices` are the turns to take at forks, and those that were taken are in `taken`."""

    def __init__(self, unit, ask, can, choices=(), summaries=None, invariants=None):
        self.unit, self.ask, self.can, self.choices = unit, ask, can, choices
        self.summaries, self.invariants = summaries or {}, invariants or {}
        self.facts, self.taken, self.fresh_count, self.divisions = [], [], 0, {}
        self.frames, self.names = [], []
        self.wraps = False  # whether unsigned numbers may wrap, as in C
        self.windows = []  # what summaries.py notes of instants

    # ---- numbers ----------------------------------------------------------------------------------------------

    def fresh(self, name):
        self.fresh_count += 1
        return z3.Int("%s!%d" % (name, self.fresh_count))

    def know(self, fact):
        if known(fact):
            if not fact:
                raise Infeasible()
        else:
            self.facts.append(fact)

    def prove(self, claim, where):
        if claim is not True:
            self.ask(self, claim, where)
            self.know(claim)

    def choose(self, condition):
        """Which way the path goes."""
        if known(condition):
            return bool(condition)
        at = len(self.taken)
        if at < len(self.choices):
            way = self.choices[at][0]
            self.taken.append(self.choices[at])
        else:
            ways = [w for w in (True, False) if self.can(self.facts + [condition if w else z3.Not(condition)])]
            if not ways:
                raise Infeasible()
            way = ways[0]
            self.taken.append((way, len(ways) == 2))
        self.facts.append(condition if way else z3.Not(condition))
        return way

    def divide(self, n, d):
        """floor(n / d) and the rest, for d > 0."""
        if known(n) and known(d):
            return n // d, n % d
        key = named(n), named(d)
        if known(d) and key not in self.divisions:
            q, r = split(n, d)
            if not self.can(self.facts + [z3.Or(r < 0, r >= d)]):
                return q, r
        if key not in self.divisions:
            q, r = self.fresh("q"), self.fresh("r")
            self.divisions[key] = (n, d, q, r)
            self.facts += [n == q * d + r, 0 <= r, r < d]
            if self.divisor_is_low(n):
                self.facts += [q >= 0]
        return self.divisions[key][2:]

    def divisor_is_low(self, n):
        """Whether n is known not to be below 0: then its quotient is not either."""
        return n >= 0 if known(n) else not self.can(self.facts + [n < 0])

    def fits(self, term, type_, where):
        low, high = type_.range()
        if known(term):
            self.prove(low <= term <= high, "%s: %d within its type" % (where, term))
        else:
            if self.wraps and not type_.signed:
                term = self.divide(term, high + 1)[1]
            self.prove(z3.And(term >= low, term <= high), "%s: within its type" % where)
        return Val(term, type_)

    def number(self, value):
        """A truth is 0 or 1 where it is counted with."""
        if value.type is BOOL or value.type.bits == 1:
            truth = value.term
            if isinstance(truth, int) and not isinstance(truth, bool):
                return Val(truth, INT)
            return Val(1 if self.choose(truth) else 0, INT)
        return value

    def truth(self, value):
        if value.type is POINTER:
            return value.term is not None
        if isinstance(value.term, bool) or z3.is_bool(value.term):
            return value.term
        return value.term != 0

    def convert(self, value, type_, where, cut=False):
        if type_ is VOID or type_ is POINTER or isinstance(value, Struct) or value.type is POINTER:
            return value
        if type_.bits == 1:
            return Val(self.truth(value), BOOL)
        value = self.number(value)
        if (value.type.bits, value.type.signed) == (type_.bits, type_.signed):
            return value
        low, high = type_.range()
        was_low, was_high = value.type.range()
        if low <= was_low and was_high <= high:
            return Val(value.term, type_)
        if not cut:
            return self.fits(value.term, type_, where)
        if known(value.term):
            term = value.term % (1 << type_.bits)
            return Val(term - (1 << type_.bits) if term > high else term, type_)
        if not self.can(self.facts + [z3.Or(value.term < low, value.term > high)]):
            return Val(value.term, type_)
        assert not type_.signed, "%s: a cast to a narrower signed type" % where
        return Val(self.divide(value.term, 1 << type_.bits)[1], type_)

    def common(self, a, b):
        """The type in which C does its arithmetic."""
        types = [INT if t.bits < 32 else t for t in (a.type, b.type)]
        bits = max(t.bits for t in types)
        return Int(bits, all(t.signed for t in types if t.bits == bits))

    def quotient(self, op, a, b, type_, where):
        self.prove(b.term != 0 if not known(b.term) else bool(b.term), where + ": no division by 0")
        if type_.signed:  # towards 0
            self.prove(b.term > 0, where + ": a divisor above 0")
            if self.choose(a.term < 0):
                q, r = self.divide(-a.term, b.term)
                return Val(-q if op == "/" else -r, type_)
        q, r = self.divide(a.term, b.term)
        return Val(q if op == "/" else r, type_)

    def shift(self, op, a, b, type_, where):
        assert known(b.term) and 0 <= b.term < type_.bits, where + ": a shift by what is not known"
        if op == ">>":
            return Val(self.divide(a.term, 1 << b.term)[0], type_)
        value = self.fits(a.term * (1 << b.term), type_, where)
        value.zeros = b.term
        return value

    def bits(self, op, a, b, type_, where):
        if known(a.term) and known(b.term):
            return Val(a.term | b.term if op == "|" else a.term & b.term, type_)
        if op == "&":
            if known(a.term):
                a, b = b, a
            assert known(b.term) and b.term & (b.term + 1) == 0, where + ": a mask that is not 2^n - 1"
            return Val(self.divide(a.term, b.term + 1)[1] if b.term else 0, type_)
        zeros = max((a, b), key=lambda v: getattr(v, "zeros", 0))
        other = b if zeros is a else a
        bits = getattr(zeros, "zeros", 0)  # where nothing was shifted, the other one has to be 0
        self.prove(other.term < (1 << bits), where + ": '|' of numbers without a bit in common")
        return Val(a.term + b.term, type_)

    def compare(self, op, a, b):
        x, y = a.term, b.term
        return Val({"<": lambda: x < y, "<=": lambda: x <= y, ">": lambda: x > y, ">=": lambda: x >= y,
                    "==": lambda: x == y, "!=": lambda: x != y}[op](), BOOL)

    def binary(self, op, a, b, where):
        if a.type is POINTER or b.type is POINTER:
            assert op in ("==", "!="), "%s: arithmetic of pointers" % where
            same = (a.term or None) is (b.term or None)
            return Val(same if op == "==" else not same, BOOL)
        a, b = self.number(a), self.number(b)
        if op in ("<<", ">>"):
            return self.shift(op, a, b, INT if a.type.bits < 32 else a.type, where)
        type_ = self.common(a, b)
        zeros = getattr(a, "zeros", 0), getattr(b, "zeros", 0)
        a, b = self.convert(a, type_, where), self.convert(b, type_, where)
        a.zeros, b.zeros = zeros
        if op in ("<", "<=", ">", ">=", "==", "!="):
            return self.compare(op, a, b)
        if op in ("/", "%"):
            return self.quotient(op, a, b, type_, where)
        if op in ("|", "&"):
            return self.bits(op, a, b, type_, where)
        term = {"+": lambda: a.term + b.term, "-": lambda: a.term - b.term, "*": lambda: a.term * b.term}[op]()
        return self.fits(term, type_, "%s: '%s'" % (where, op))

    # ---- memory -----------------------------------------------------------------------------------------------

    def zero(self, type_):
        if isinstance(type_, StructType):
            return Struct(type_.tag)
        if isinstance(type_, Array):
            return [self.zero(type_.of) for _ in range(type_.count)]
        return Val(None, POINTER) if type_ is POINTER else Val(0, type_)

    def load(self, ref):
        holder = ref.holder
        if isinstance(holder, Struct):
            if ref.key not in holder.fields:
                holder.fields[ref.key] = self.zero(self.unit.field_type(holder.tag, ref.key))
            return holder.fields[ref.key]
        return holder[ref.key]

    def load_field(self, struct, name):
        return self.load(Ref(struct, name))

    def store(self, ref, value, where):
        if isinstance(value, Struct):
            held = self.load(ref) if not isinstance(ref.holder, dict) or ref.key in ref.holder else None
            if held is not None:
                held.fields.clear()
                held.fields.update(copy.deepcopy(value.fields))
                return
            ref.holder[ref.key] = copy.deepcopy(value)
            return
        if isinstance(ref.holder, Struct):
            type_ = self.unit.field_type(ref.holder.tag, ref.key)
            ref.holder.fields[ref.key] = self.convert(value, type_, where)
        else:
            ref.holder[ref.key] = self.convert(value, ref.holder[ref.key].type, where)

    def place(self, node):
        """Where an expression that can be assigned to is."""
        where = str(node.coord)
        if isinstance(node, c_ast.ID):
            return Ref(self.frames[-1] if node.name in self.frames[-1] else self.global_frame(node.name), node.name)
        if isinstance(node, c_ast.StructRef):
            if node.type == "->":
                holder = self.load(self.value(node.name).term)
            else:
                holder = self.load(self.place(node.name)) if not isinstance(node.name, c_ast.FuncCall) \
                    else self.value(node.name)
            assert isinstance(holder, Struct), where
            return Ref(holder, node.field.name)
        if isinstance(node, c_ast.ArrayRef):
            index = self.number(self.value(node.subscript)).term
            assert known(index), where + ": an index that is not known"
            array = self.load(self.place(node.name))
            if isinstance(array, Val):  # a pointer into an array
                base = array.term
                return Ref(base.holder, base.key + index)
            return Ref(array, index)
        if isinstance(node, c_ast.UnaryOp) and node.op == "*":
            return self.value(node.expr).term
        if isinstance(node, c_ast.CompoundLiteral):
            return Ref({"it": self.value(node)}, "it")
        raise NotImplementedError("%s: %s" % (where, type(node).__name__))

    def global_frame(self, name):
        node = self.unit.globals[name]
        frame = {}
        self.frames.append(frame)
        self.declare(node)
        self.frames.pop()
        return frame

    # ---- expressions ------------------------------------------------------------------------------------------

    def value(self, node):
        return getattr(self, "value_" + type(node).__name__)(node)

    def value_Constant(self, node):
        if node.type == "string":
            return Val(node.value, POINTER)
        text = node.value.lower()
        number = int(text.rstrip("ul"), 0)
        suffix = text[len(text.rstrip("ul")):]
        bits = 64 if "l" in suffix or number >= 1 << (32 if "u" in suffix else 31) else 32
        return Val(number, Int(bits, "u" not in suffix))

    def value_ID(self, node):
        if node.name in self.unit.constants and node.name not in self.frames[-1]:
            return Val(self.unit.constants[node.name], INT if self.unit.constants[node.name] < 1 << 31 else U64)
        return self.load(self.place(node))

    def value_StructRef(self, node):
        return self.load(self.place(node))

    value_ArrayRef = value_StructRef

    def value_Cast(self, node):
        return self.convert(self.value(node.expr), self.unit.type_of(node.to_type), str(node.coord), cut=True)

    def value_CompoundLiteral(self, node):
        return self.initial(self.unit.type_of(node.type), node.init)

    def value_UnaryOp(self, node):
        where = str(node.coord)
        if node.op == "sizeof":
            return Val(self.unit.type_of(node.expr).bits // 8, U64)
        if node.op == "&":
            return Val(self.place(node.expr), POINTER)
        if node.op == "*":
            return self.load(self.place(node))
        if node.op == "!":
            truth = self.truth(self.value(node.expr))
            return Val(not truth if known(truth) else z3.Not(truth), BOOL)
        if node.op == "-":
            value = self.number(self.value(node.expr))
            return self.fits(-value.term, INT if value.type.bits < 32 else value.type, where)
        if node.op in ("++", "--", "p++", "p--"):
            ref = self.place(node.expr)
            before = self.load(ref)
            after = self.binary(node.op[-1], before, Val(1, INT), where)
            self.store(ref, after, where)
            return before if node.op[0] == "p" else self.load(ref)
        if node.op == "~":
            value = self.value(node.expr)
            assert not value.type.signed and value.type.bits >= 32, where
            return Val(value.type.range()[1] - value.term, value.type)
        raise NotImplementedError("%s: %s" % (where, node.op))

    def value_BinaryOp(self, node):
        if node.op in ("&&", "||"):
            left = self.choose(self.truth(self.value(node.left)))
            if left == (node.op == "||"):
                return Val(left, BOOL)
            return Val(self.truth(self.value(node.right)), BOOL)
        return self.binary(node.op, self.value(node.left), self.value(node.right), str(node.coord))

    def value_TernaryOp(self, node):
        if isinstance(node.iffalse, c_ast.FuncCall) and node.iffalse.name.name == "abort":
            self.prove(self.truth(self.value(node.cond)), "%s: an assertion" % node.coord)
            return Val(None, VOID)
        way = self.choose(self.truth(self.value(node.cond)))
        value, other = self.value(node.iftrue if way else node.iffalse), node.iffalse if way else node.iftrue
        if isinstance(value, Val) and isinstance(value.type, Int) and value.type.bits > 1:
            its = self.type_unseen(other)  # the type is that of both
            if isinstance(its, Int) and its.bits > 1:
                return self.convert(value, self.common(value, Val(0, its)), str(node.coord))
        return value

    def type_unseen(self, node):
        """The type of an expression that is not looked at, where that is plain: else None, and the other's is taken."""
        if isinstance(node, (c_ast.Constant, c_ast.ID)):
            value = self.value(node)
            return value.type if isinstance(value, Val) else None
        if isinstance(node, c_ast.Cast):
            return self.unit.type_of(node.to_type)
        if isinstance(node, c_ast.FuncCall) and node.name.name in self.unit.functions:
            return self.unit.type_of(self.unit.functions[node.name.name].decl.type.type)
        if isinstance(node, c_ast.BinaryOp) and node.op in ("+", "-", "*", "/", "%"):
            left, right = self.type_unseen(node.left), self.type_unseen(node.right)
            if isinstance(left, Int) and isinstance(right, Int):
                return self.common(Val(0, left), Val(0, right))
        return None

    def value_Assignment(self, node):
        where = str(node.coord)
        ref = self.place(node.lvalue)
        value = self.value(node.rvalue)
        if node.op != "=":
            value = self.binary(node.op[:-1], self.load(ref), value, where)
        self.store(ref, value, where)
        return value

    def value_ExprList(self, node):
        for expr in node.exprs:
            value = self.value(expr)
        return value

    def value_FuncCall(self, node):
        name = node.name.name
        if name == "__builtin_expect":
            return self.value(node.args.exprs[0])
        arguments = [self.value(e) for e in (node.args.exprs if node.args else [])]
        return self.call(name, arguments, str(node.coord))

    def call(self, name, arguments, where="call"):
        if name in self.summaries:
            return self.summaries[name](self, *arguments)
        function = self.unit.functions[name]
        frame, params = {}, function.decl.type.args.params if function.decl.type.args else []
        for param, argument in zip(params, arguments):
            if param.name is not None:
                type_ = self.unit.type_of(param.type)
                type_ = POINTER if isinstance(type_, Array) else type_
                frame[param.name] = copy.deepcopy(argument) if isinstance(argument, Struct) \
                    else self.convert(argument, type_, where)
        self.frames.append(frame)
        self.names.append(name)
        try:
            self.run(function.body)
            value = Val(None, VOID)
        except Return as ended:
            value = ended.value
            if value is not None and not isinstance(value, Struct):
                value = self.convert(value, self.unit.type_of(function.decl.type.type), where)
        self.frames.pop()
        self.names.pop()
        return value

    # ---- statements -------------------------------------------------------------------------------------------

    def run(self, node):
        kind = type(node).__name__
        if kind == "Compound":
            for item in node.block_items or []:
                self.run(item)
        elif kind in ("Decl", "DeclList"):
            for decl in [node] if kind == "Decl" else node.decls:
                self.declare(decl)
        elif kind == "If":
            chosen = node.iftrue if self.choose(self.truth(self.value(node.cond))) else node.iffalse
            if chosen is not None:
                self.run(chosen)
        elif kind == "Return":
            raise Return(self.value(node.expr) if node.expr is not None else None)
        elif kind in ("While", "For"):
            self.loop(node)
        elif kind == "Break":
            raise Break()
        elif kind == "EmptyStatement":
            pass
        else:
            self.value(node)

    def loop(self, node):
        if isinstance(node, c_ast.For) and node.init is not None:
            self.run(node.init)
        if self.names and self.loop_key(node) in self.invariants:
            self.any_round(node, *self.invariants[self.loop_key(node)])
            return
        for _ in range(ROUNDS_MAX):
            if node.cond is not None and not self.choose(self.truth(self.value(node.cond))):
                return
            try:
                self.run(node.stmt)
            except Break:
                return
            if isinstance(node, c_ast.For) and node.next is not None:
                self.value(node.next)
        raise AssertionError("%s: more than %d rounds" % (node.coord, ROUNDS_MAX))

    def loop_key(self, node):
        """The function, and which of its loops, from 0."""
        loops = [each for each in self.unit.walk(self.unit.functions[self.names[-1]].body)
                 if isinstance(each, (c_ast.While, c_ast.For))]
        return self.names[-1], [each is node for each in loops].index(True)

    def any_round(self, node, claims, measure, part=1, forget=None):
        """A loop of however many rounds: what is claimed of its variables holds before it and after a round that began
        with it, and the measure has fallen, to one so-manieth of what it was at most, and is not below 0. Then it holds
        behind the loop, whatever they are. Where it changes more than variables, `forget` makes that unknown."""
        frame = self.frames[-1]
        for words, claim in claims(self, frame):
            self.prove(claim, words + ", before the loop")
        for name in sorted(self.assigned(node, forget is not None)):
            frame[name] = Val(self.fresh(name), frame[name].type)
            low, high = frame[name].type.range()
            self.facts += [frame[name].term >= low, frame[name].term <= high]
        if forget is not None:
            forget(self, frame)
        for _, claim in claims(self, frame):
            self.know(claim)
        before = measure(self, frame)
        if node.cond is not None and not self.choose(self.truth(self.value(node.cond))):
            return
        self.run(node.stmt)
        if isinstance(node, c_ast.For) and node.next is not None:
            self.value(node.next)
        for words, claim in claims(self, frame):
            self.prove(claim, words + ", after a round")
        after = measure(self, frame)
        self.prove(z3.And(after < before, part * after <= before, after >= 0), "%s: a round less" % node.coord)
        raise Infeasible()  # this way ends here

    def assigned(self, node, forgets=False):
        """The variables that a loop changes. What it changes elsewhere is not understood, but where it is forgotten."""
        names = set()
        for each in self.unit.walk(node):
            target = each.lvalue if isinstance(each, c_ast.Assignment) else \
                each.expr if isinstance(each, c_ast.UnaryOp) and each.op in ("++", "--", "p++", "p--") else None
            if target is not None:
                assert isinstance(target, c_ast.ID) or forgets, "%s: more than a variable is changed" % each.coord
                names |= {target.name} if isinstance(target, c_ast.ID) else set()
        return names & set(self.frames[-1])

    def declare(self, decl):
        type_ = self.unit.type_of(decl.type)
        if decl.init is not None:
            self.frames[-1][decl.name] = self.initial(type_, decl.init)
        else:
            self.frames[-1][decl.name] = self.zero(type_)

    def initial(self, type_, init):
        if not isinstance(init, c_ast.InitList):
            value = self.value(init)
            if isinstance(value, Struct):
                return copy.deepcopy(value)
            return self.convert(value, type_, str(init.coord))
        if isinstance(type_, Array):
            values = [self.initial(type_.of, each) for each in init.exprs]
            return values + [self.zero(type_.of) for _ in range((type_.count or 0) - len(values))]
        struct = Struct(type_.tag)
        names = [decl.name for decl in self.unit.structs[type_.tag].decls]
        for i, each in enumerate(init.exprs):
            named = isinstance(each, c_ast.NamedInitializer)
            name = each.name[0].name if named else names[i]
            struct.fields[name] = self.initial(self.unit.field_type(type_.tag, name), each.expr if named else each)
        return struct


def paths(make_run, begin):
    """Every path: calls begin(run) for each until no fork is left; yields (run, what begin returned). Forks that are
    taken with the run after that are followed as well."""
    todo = [()]
    while todo:
        choices = todo.pop()
        run = make_run(choices)
        try:
            result = begin(run)
            ended = True
        except Infeasible:
            ended = False
        if ended:
            yield run, result
        for i in range(len(choices), len(run.taken)):
            if run.taken[i][1]:
                todo.append(tuple(run.taken[:i]) + ((not run.taken[i][0], False),))
