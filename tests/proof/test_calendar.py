"""Windows of the calendar (src/algo/calendar.c, base/civil.h): for every day from 1970 to 2554 what is around it is a
week, month or year; and for every instant, in a zone of any offset, and in one whose clocks are set once, at any
instant and by anything, the hour, day or week that it is in contains it, and begins and ends where local clocks say so.

Offsets and the instant at which they change are numbers that are not known. That a table of more shifts is searched
rightly is for the models, which go through all of tzdata (tests/model/calendar_test.c, days_test.c)."""
import pytest
import z3

from csource import Int, POINTER, U64, read
from execute import Ref, Struct, Val
from limits import Numbers, TIME_MAX, U32, limit_of, pointer
from solve import prove, refuted

FILE = "src/algo/calendar.c"
HEADER = "src/base/civil.h"
SECOND, HOUR_S, DAY_S, OFFSET_MAX = 10**9, 3600, 86400, 86399
LAST_S = TIME_MAX // SECOND
UNITS = {"hour": 1, "day": 2, "week": 3, "month": 4, "year": 5}
LENGTHS = {"hour": HOUR_S, "day": DAY_S, "week": 7 * DAY_S}
I64, I32 = Int(64, True), Int(32, True)


# ---- days --------------------------------------------------------------------------------------------------------

def around(unit, pins=None):
    def begin(run):
        day = Numbers(run, pins)("day", -1, LAST_S // DAY_S + 1)
        frame = {"first": Val(0, I64), "next": Val(0, I64)}
        found = [Val(Ref(frame, name), POINTER) for name in frame]
        run.call("days_around", [Val(UNITS[unit], U32), Val(day, I64), *found])
        return day, frame["first"].term, frame["next"].term
    return begin


def is_around(unit):
    least, most = {"day": (1, 1), "week": (7, 7), "month": (28, 31), "year": (365, 366)}[unit]

    def claims(run, result):
        day, first, next_ = result
        said = [("the day is in it", z3.And(first <= day, day < next_)),
                ("it is as long as one", z3.And(next_ - first >= least, next_ - first <= most))]
        if unit == "week":
            said += [("it begins on a Monday", run.divide(first + 3, 7)[1] == 0)]
        return said
    return claims


@pytest.mark.parametrize("unit", ["day", "week"])
def test_what_is_around_a_day(unit):
    print(unit, prove(read(FILE), around(unit), is_around(unit)))


@pytest.mark.parametrize("unit", ["month", "year"])
def test_the_civil_date_of_a_day(unit):
    print(unit, prove(read(FILE), around(unit), is_around(unit)))


# ---- zones -------------------------------------------------------------------------------------------------------

class Scene:
    """A zone of one or two shifts, and the window of an instant, in seconds that may lie before 1970."""

    def __init__(self, run, unit, shifts, pins):
        n = Numbers(run, pins)
        self.t, run.spans = n("t", 0, LAST_S), []
        self.offsets = [n("offset%d" % i, -OFFSET_MAX, OFFSET_MAX) for i in range(shifts)]
        self.set_at = [n("set_at%d" % i, -2**40, 2**40) for i in range(shifts)]
        for a, b in zip(self.set_at, self.set_at[1:]):
            run.know(a < b)
        table = [Struct("sl_shift", {"from_s": Val(at, I64), "offset_s": Val(offset, I32)})
                 for at, offset in zip(self.set_at, self.offsets)]
        run.zone = Struct("sl_zone", {"count": Val(shifts, U32), "shifts": Val(Ref(table, 0), POINTER)})
        limit = limit_of("fixed-window", calendar=UNITS[unit], zone=0)
        run.call("sl_calendar_span", [pointer(limit), Val(self.t * SECOND + n("ns", 0, SECOND - 1), U64)])
        self.start, self.end = run.spans


def scene(unit, shifts, pins=None):
    return lambda run: Scene(run, unit, shifts, pins)


def zone_at(run, number):
    return pointer(run.zone)


def to_ns(run, s):
    """test_seconds_become_ns()."""
    run.spans.append(s.term)
    return Val(0, U64)


SUMMARIES = {"sl_zone_at": zone_at, "to_ns": to_ns}


def contains(unit):
    def claims(run, s):
        said = [("the instant is in it", z3.And(s.start <= s.t, s.t < s.end))]
        if len(s.offsets) == 1:
            of = LENGTHS[unit]
            rest = run.divide(s.start + s.offsets[0] + (3 * DAY_S if unit == "week" else 0), of)[1]
            said += [("it is as long as one", s.end - s.start == of), ("it begins with a full one", rest == 0)]
        elif unit == "hour":
            said += [("it is no longer than one", s.end - s.start <= HOUR_S)]
        else:
            swing = 2 * OFFSET_MAX
            said += [("it is longer or shorter by what clocks were set at most",
                      z3.And(s.end - s.start <= DAY_S + swing, s.end - s.start > 0))]
        return said
    return claims


@pytest.mark.parametrize("unit,shifts", [("hour", 1), ("day", 1), ("week", 1), ("hour", 2), ("day", 2)])
def test_the_window_of_an_instant(unit, shifts):
    print(unit, shifts, prove(read(FILE), scene(unit, shifts), contains(unit), None, SUMMARIES))


def test_seconds_become_ns():
    def begin(run):
        s = Numbers(run)("s", -2**41, 2**41)
        return s, run.call("to_ns", [Val(s, I64)]).term

    def claims(run, result):
        s, ns = result
        return [("exact", z3.Implies(z3.And(s >= 0, s <= LAST_S), ns == s * SECOND)),
                ("none before 1970", z3.Implies(s < 0, ns == 0)),
                ("the end of time", z3.Implies(s > LAST_S, ns == TIME_MAX))]
    print("to_ns", prove(read(FILE), begin, claims))


# ---- mistakes ----------------------------------------------------------------------------------------------------

def test_a_mistake_is_refuted():
    def found(mistake, *arguments):
        witness = refuted(read(FILE, mistake), *arguments)
        print(mistake[:2], witness)
        assert witness

    found(("sl_floor_div(day + 3, 7) * 7 - 3", "sl_floor_div(day + 4, 7) * 7 - 4", 1), around("week"),
          is_around("week"))
    found(("date.month == 12", "date.month == 11", 1), around("month", {"day": 310}), is_around("month"))
    found(("a / b - (a % b < 0)", "a / b", 1, HEADER), scene("hour", 1), contains("hour"), None, SUMMARIES)
    for unit, shifts, mistake in (
            ("hour", 1, ("t_s + offset, hour_s) * hour_s - offset", "t_s, hour_s) * hour_s", 1)),
            ("hour", 2, ("*end = *start + hour_s;", "*end = *start + day_s;", 1)),
            ("day", 1, ("int64_t t = local - shifts[i].offset_s", "int64_t t = local + shifts[i].offset_s", 1)),
            ("day", 2, ("if (i != 0 && t < shifts[i].from_s)", "if (i == 0 && t < shifts[i].from_s)", 1))):
        found(mistake, scene(unit, shifts), contains(unit), None, SUMMARIES)
