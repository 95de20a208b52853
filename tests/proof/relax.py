"""Claims on whole numbers as claims on real ones, for z3's simplex: quick, where whole numbers and their products are
slow, and sound, since what no real numbers can do no whole ones can.

A product of unknowns becomes one real unknown of its own. What is lost by that is given back where it is cheap: a < b
of whole numbers is a + 1 <= b, and a != b is one or the other."""
import z3

CACHE = {}  # by the number of a term; the term is kept, so that its number is


def polynomial(term):
    """{names of a product, in order: coefficient}."""
    key = term.get_id()
    if key not in CACHE:
        CACHE[key] = (term, expand(term))
    return CACHE[key][1]


def expand(term):
    kind = term.decl().kind()
    if z3.is_int_value(term):
        return {(): term.as_long()} if term.as_long() else {}
    if kind == z3.Z3_OP_UNINTERPRETED:
        return {(term.decl().name(),): 1}
    parts = [polynomial(child) for child in term.children()]
    if kind == z3.Z3_OP_MUL:
        product = parts[0]
        for part in parts[1:]:
            product = multiplied(product, part)
        return product
    assert kind in (z3.Z3_OP_ADD, z3.Z3_OP_SUB, z3.Z3_OP_UMINUS), "neither sum nor product: %s" % term
    sum_ = {}
    for i, part in enumerate(parts):
        sign = -1 if kind == z3.Z3_OP_UMINUS or (kind == z3.Z3_OP_SUB and i) else 1
        for names, factor in part.items():
            sum_[names] = sum_.get(names, 0) + sign * factor
    return {names: factor for names, factor in sum_.items() if factor}


def multiplied(a, b):
    product = {}
    for x, i in a.items():
        for y, k in b.items():
            names = tuple(sorted(x + y))
            product[names] = product.get(names, 0) + i * k
    return product


def real(terms):
    """A polynomial as a term of reals."""
    return z3.Sum([z3.RealVal(0)] + [z3.RealVal(factor) * z3.Real("*".join(names)) if names else z3.RealVal(factor)
                                     for names, factor in terms.items()])


def whole(terms):
    """A polynomial as a term of whole numbers."""
    sum_ = z3.IntVal(0)
    for names, factor in terms.items():
        product = z3.IntVal(factor)
        for name in names:
            product = product * z3.Int(name)
        sum_ = sum_ + product
    return z3.simplify(sum_)


def split(term, d):
    """term = q d + r, by what of it has a factor that d divides."""
    terms = polynomial(term)
    return (whole({names: factor // d for names, factor in terms.items()}),
            whole({names: factor % d for names, factor in terms.items() if factor % d}))


def difference(a, b, more=0):
    """a - b + more."""
    terms = dict(polynomial(a))
    for names, factor in polynomial(b).items():
        terms[names] = terms.get(names, 0) - factor
    terms[()] = terms.get((), 0) + more
    return {names: factor for names, factor in terms.items() if factor}


def at_most(a, b, more=0):
    """a + more <= b."""
    terms = difference(a, b, more)
    if not terms or set(terms) == {()}:
        return z3.BoolVal(terms.get((), 0) <= 0)
    return real(terms) <= 0


def compared(kind, a, b, yes):
    """A comparison of whole numbers, or its contrary."""
    if kind == z3.Z3_OP_GE:
        kind, a, b = z3.Z3_OP_LE, b, a
    elif kind == z3.Z3_OP_GT:
        kind, a, b = z3.Z3_OP_LT, b, a
    if kind == z3.Z3_OP_LE:
        return at_most(a, b) if yes else at_most(b, a, 1)
    if kind == z3.Z3_OP_LT:
        return at_most(a, b, 1) if yes else at_most(b, a)
    if yes:
        return z3.And(at_most(a, b), at_most(b, a))
    return z3.Or(at_most(a, b, 1), at_most(b, a, 1))


def relaxed(fact, yes=True):
    """What of a fact (or of its contrary) reals can hold to."""
    key = (fact.get_id(), yes)
    if key not in CACHE:
        CACHE[key] = (fact, relax(fact, yes))
    return CACHE[key][1]


def relax(fact, yes):
    kind, parts = fact.decl().kind(), fact.children()
    if kind in (z3.Z3_OP_TRUE, z3.Z3_OP_FALSE):
        return z3.BoolVal((kind == z3.Z3_OP_TRUE) == yes)
    if kind == z3.Z3_OP_NOT:
        return relaxed(parts[0], not yes)
    if kind in (z3.Z3_OP_AND, z3.Z3_OP_OR):
        return (z3.And if (kind == z3.Z3_OP_AND) == yes else z3.Or)([relaxed(part, yes) for part in parts])
    if kind == z3.Z3_OP_IMPLIES:
        sides = [relaxed(parts[0], not yes), relaxed(parts[1], yes)]
        return z3.Or(sides) if yes else z3.And(sides)
    if kind == z3.Z3_OP_DISTINCT:
        return compared(z3.Z3_OP_EQ, parts[0], parts[1], not yes)
    if kind == z3.Z3_OP_EQ and z3.is_bool(parts[0]):
        return z3.Or(z3.And(relaxed(parts[0]), relaxed(parts[1], yes)),
                     z3.And(relaxed(parts[0], False), relaxed(parts[1], not yes)))
    if kind == z3.Z3_OP_UNINTERPRETED:
        return fact if yes else z3.Not(fact)
    return compared(kind, parts[0], parts[1], yes)
