"""Windows of the calendar, worked out from Python's zoneinfo: from the offset at single instants, whose changes are
found by halving, and civil dates. It shares nothing with the program but the meaning: a day begins at the first instant
whose local date is that day or later; hours are whole ones of the local clock, cut where it is set by a part of one."""

import datetime
import functools
import zoneinfo

EPOCH = datetime.date(1970, 1, 1).toordinal()
DAY = 86400
UNITS = ("hour", "day", "week", "month", "year")
LONGEST = {"hour": 3600, "day": 3 * DAY, "week": 9 * DAY, "month": 33 * DAY, "year": 368 * DAY}


@functools.lru_cache(maxsize=None)
def offset(name, t):
    return int(datetime.datetime.fromtimestamp(t, zoneinfo.ZoneInfo(name)).utcoffset().total_seconds())


@functools.lru_cache(maxsize=None)
def changes(name, start, end, step=3600):
    """The instants in (start, end] at which the offset changes."""
    found = []
    for t in range(start, end, step):
        low, high = t, min(t + step, end)
        if offset(name, low) == offset(name, high):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset(name, middle) == offset(name, low) else (low, middle)
        found.append(high)
    return found


@functools.lru_cache(maxsize=None)
def day_start(name, day):
    """The first instant whose local date is this day (counted from 1970) or later."""
    first, last = day * DAY - DAY, day * DAY + DAY
    edges = [first, *changes(name, first, last), last]
    for start, end in zip(edges, edges[1:]):
        t = max(start, day * DAY - offset(name, start))
        if t < end:
            return t
    raise AssertionError(f"{name}: day {day} does not begin")


def next_unit(day, unit):
    """The first day of the unit behind that of a day."""
    date = datetime.date.fromordinal(day + EPOCH)
    if unit == "day":
        return day + 1
    if unit == "week":
        return day + 7 - date.weekday()
    if unit == "month":
        date = datetime.date(date.year + date.month // 12, date.month % 12 + 1, 1)
    else:
        date = datetime.date(date.year + 1, 1, 1)
    return date.toordinal() - EPOCH


def first_of(day, unit):
    """The first day of the unit that a day is in."""
    date = datetime.date.fromordinal(day + EPOCH)
    if unit == "week":
        return day - date.weekday()
    if unit == "month":
        date = date.replace(day=1)
    elif unit == "year":
        date = date.replace(month=1, day=1)
    return date.toordinal() - EPOCH


def hour_end(name, t):
    full = t + 3600 - (t + offset(name, t)) % 3600
    for change in changes(name, t, full, 600):
        if change < full and (offset(name, change) - offset(name, change - 1)) % 3600 != 0:
            return change
    return full


def hour_start(name, t):
    full = t - (t + offset(name, t)) % 3600
    for change in reversed(changes(name, full, t, 600)):
        if change > full and (offset(name, change) - offset(name, change - 1)) % 3600 != 0:
            return change
    return full


def day_of(name, t):
    """The latest date that there has been, counted from 1970."""
    day = (t + offset(name, t)) // DAY
    while day_start(name, day + 1) <= t:
        day += 1
    return day


def window_end(name, unit, t):
    """When the window ends that holds an instant; Unix seconds, as all here."""
    if unit == "hour":
        return hour_end(name, t)
    return day_start(name, next_unit(day_of(name, t), unit))


def window_start(name, unit, t):
    if unit == "hour":
        return hour_start(name, t)
    return day_start(name, first_of(day_of(name, t), unit))
