"""Proofs and refutations of claims on the paths of a function (execute.py).

z3 is asked linear questions on reals (relax.py): a product of two unknowns is one number that it knows nothing of, and
what is needed of it is said by lemmas that hold for all whole numbers (monotone(), times()), each of which is proved by
itself in test_division.py. What that can't see is asked once more, of whole numbers and their products. Whatever z3
does not prove within its steps is no proof: `unknown` fails as `false` does.

A proof that can't fail is none. So each has mistakes that are made in the source on purpose (csource.changed), and
refuted() wants a refutation: numbers for which the claim is false, all of them whole and within their ranges, which z3
finds and which are put in again."""
import itertools
import os
import time

import z3

from execute import Infeasible, Run, known, paths
from relax import relaxed

REAL_STEPS, WHOLE_STEPS = 50000000, 100000000  # of z3's own: a busy machine changes nothing


class NotProved(AssertionError):
    pass


class Refuted(Exception):
    """Holds the numbers."""


def solve(solver, facts, steps, what):
    solver.set("rlimit", steps)
    solver.add(*facts)
    start = time.monotonic()
    said = solver.check()
    if os.environ.get("SLUICE_PROOF_TRACE"):
        print("    %s: %s, %.2f s, %d facts" % (what, said, time.monotonic() - start, len(facts)))
    return said


class Scopes:
    """A solver that keeps what a question has in common with the one before it: a fact a scope. Most of them do: the
    facts of a path only become more. Making the terms of a fact takes longer than solving with them."""

    def __init__(self):
        self.solver, self.facts = z3.SolverFor("QF_LRA"), []

    def ask(self, facts):
        same = 0
        while same < min(len(facts), len(self.facts)) and (
                facts[same] is self.facts[same] or facts[same].get_id() == self.facts[same].get_id()):
            same += 1
        if same < len(self.facts):
            self.solver.pop(len(self.facts) - same)
        for fact in facts[same:]:
            self.solver.push()
            self.solver.add(relaxed(fact))
        self.facts = list(facts)
        return solve(self.solver, [], REAL_STEPS, "reals")


SCOPES = [Scopes()]  # of the proof that goes on


def on_reals(facts):
    return SCOPES[0].ask(facts)


def can(facts):
    return on_reals(facts) != z3.unsat


LEMMAS = {}  # by the numbers of their terms, which are kept, so that they stay theirs


def monotone(factor, *terms):
    """Of a factor that is not below 0: a <= b gives a factor <= b factor, and a < b one factor more."""
    lemmas = []
    for a, b in itertools.permutations(terms, 2):
        key = tuple(term if known(term) else ("term", term.get_id()) for term in (factor, a, b))
        if key not in LEMMAS:
            LEMMAS[key] = (factor, a, b, lemmas_of(factor, a, b))
        lemmas += LEMMAS[key][3]
    return lemmas


def lemmas_of(factor, a, b):
    apart, is_factor = a - b, factor >= 0
    if known(apart) or z3.is_int_value(z3.simplify(apart)):
        return []
    return [z3.Implies(z3.And(is_factor, a <= b), a * factor <= b * factor),
            z3.Implies(z3.And(is_factor, a + 1 <= b), a * factor + factor <= b * factor)]


def scaled(run, by):
    """Every quotient of the run, n = q d + r, times a term."""
    return [n * by == (q * d + r) * by for n, d, q, r in run.divisions.values()]


def times(a, b):
    """Of numbers that are not below 0 neither is the product."""
    return [z3.Implies(z3.And(a >= 0, b >= 0), a * b >= 0)]


class Prover:
    """Asks what runs have to have proved, with the lemmas that `hints` makes of a run, or each of several in turn: what
    needs few lemmas is not found among many. Counts what was asked."""

    def __init__(self, hints=None, refute=False):
        self.hints = hints if isinstance(hints, tuple) else () if hints is None else (hints,)
        self.refute, self.asked, self.done = refute, 0, set()

    def ask(self, run, claim, where):
        claim = z3.BoolVal(claim) if known(claim) else claim
        key = (tuple(way for way, _ in run.taken), where, claim.sexpr(), len(run.facts))
        if key in self.done:
            return
        self.asked += 1
        self.done.add(key)
        facts = run.facts + [z3.Not(claim)]
        if os.environ.get("SLUICE_PROOF_TRACE"):
            print(where, " ".join(str(claim).split())[:150])
        if on_reals(facts) == z3.unsat:
            return
        lemmas = []
        for hints in self.hints:
            lemmas = hints(run)
            if on_reals(facts + lemmas) == z3.unsat:
                return
        self.ask_of_whole(facts, [] if self.refute else lemmas, claim, where)

    def ask_of_whole(self, facts, lemmas, claim, where):
        whole = z3.Solver()
        said = solve(whole, facts + lemmas, WHOLE_STEPS, "whole")
        if said == z3.unsat:
            return
        if said == z3.sat and self.refute:
            raise Refuted("%s: %s" % (where, numbers(whole.model(), facts)))
        if not self.refute:
            raise NotProved("%s: %s\n  %s\n  %s" % (where, said, claim, whole.model() if said == z3.sat else ""))


def numbers(model, facts):
    """The model, after all facts were found true in it."""
    for fact in facts:
        assert z3.is_true(model.eval(fact, model_completion=True)), "a model that is none"
    return ", ".join(sorted("%s = %s" % (d, model[d]) for d in model.decls() if "!" not in d.name()))


def prove(unit, begin, claims=None, hints=None, summaries=None, refute=False, invariants=None):
    """Every path of begin(run) with what is asked on it, and `claims` (of a run and begin's result, to a list of
    (words, claim)); `invariants` of loops (execute.any_round). Returns how many paths and how many questions that
    were."""
    prover, count = Prover(hints, refute), 0
    SCOPES[0] = Scopes()

    def make(choices):
        return Run(unit, prover.ask, can, choices, summaries, invariants)

    for run, result in paths(make, begin):
        count += 1
        try:
            for words, claim in claims(run, result) if claims is not None else []:
                prover.ask(run, claim, words)
        except Infeasible:
            pass  # what was asked for this path are facts that can't be
    assert count > 0, "no path"
    return count, prover.asked


def refuted(*arguments, **named):
    """Numbers for which something that is claimed is false, as text; None where none are found."""
    try:
        prove(*arguments, refute=True, **named)
    except Refuted as found:
        return str(found)
    return None
