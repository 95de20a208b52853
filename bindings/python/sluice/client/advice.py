"""What a response says of its server's limits, whichever way it says it: one plain object from status and headers.

    Retry-After                                  seconds, or a date by the response's own Date
    RateLimit, RateLimit-Policy                  drafts 10 to 8 (lists of named items) and 7 (a dictionary), by content
    RateLimit-Limit, -Remaining, -Reset          drafts 6 and older; the reset is seconds
    X-RateLimit-*, X-Rate-Limit-*                by custom; the reset is seconds, or an instant since 1970 in s or ms

A reset above EPOCH_S_MIN is an instant: no server tells a wait of 31 years, and those that put an instant into
RateLimit-Reset (which should be a delta) are understood as well. An instant is compared with the response's Date, if it
has a valid one, so a client whose clock is wrong waits what the server meant. What is malformed is ignored. A stored
response (Age above 0) speaks of the past: only its Retry-After counts. The same in JavaScript: advice.js there.
"""

import calendar
import datetime
import math
import re

from .fields import parse_dictionary, parse_list

EPOCH_S_MIN = 10**9
EPOCH_MS_MIN = 10**11
SECONDS_MAX = 10**12  # more is told by nobody who means it: "never"

MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
FORMS = [re.compile(form, re.A) for form in (
    r"[A-Z][a-z]{2}, (?P<d>\d\d) (?P<m>[A-Z][a-z]{2}) (?P<y>\d{4}) (?P<t>\d\d:\d\d:\d\d) GMT",
    r"[A-Z][a-z]{5,8}, (?P<d>\d\d)-(?P<m>[A-Z][a-z]{2})-(?P<y>\d\d) (?P<t>\d\d:\d\d:\d\d) GMT",
    r"[A-Z][a-z]{2} (?P<m>[A-Z][a-z]{2}) (?P<d>[ \d]\d) (?P<t>\d\d:\d\d:\d\d) (?P<y>\d{4})")]
SECONDS = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")
FIRST_NUMBER = re.compile(r"[ \t]*([0-9]{1,15}(?:\.[0-9]{1,9})?)[ \t]*(?:;.*)?")


class Advice:
    """What a response says. Waits in ms; None: it doesn't say; math.inf: more than anybody waits.

    limited    the request was refused for a limit: 429, 420, 503 with Retry-After, 403 with Retry-After or nothing left
    wait_ms    how long to wait before the next request
    remaining  what is left; reset_ms: until more is; quota: of how much; window_ms: in which window
    """

    __slots__ = ("limited", "wait_ms", "remaining", "reset_ms", "quota", "window_ms")

    def __init__(self, limited=False, wait_ms=None, remaining=None, reset_ms=None, quota=None, window_ms=None):
        self.limited, self.wait_ms, self.remaining = limited, wait_ms, remaining
        self.reset_ms, self.quota, self.window_ms = reset_ms, quota, window_ms

    def __repr__(self):
        return "Advice(%s)" % ", ".join("%s=%r" % (name, getattr(self, name)) for name in self.__slots__)


def parse_date(text, now):
    """An HTTP date (RFC 9110 5.6.7, all three forms) in ms since 1970, or None. Two digits of a year are of the hundred
    years around `now`."""
    found = next(filter(None, (form.fullmatch(text) for form in FORMS)), None)
    if not found or found["m"] not in MONTHS:
        return None
    hour, minute, second = map(int, found["t"].split(":"))
    day, month, year = int(found["d"]), MONTHS.index(found["m"]) + 1, int(found["y"])
    if len(found["y"]) == 2:
        this_year = datetime.datetime.fromtimestamp(now / 1000, datetime.timezone.utc).year
        year += this_year - this_year % 100
        if year > this_year + 50:
            year -= 100
    if hour > 23 or minute > 59 or second > 60 or year < 1970 or not 1 <= day <= calendar.monthrange(year, month)[1]:
        return None
    return calendar.timegm((year, month, day, hour, minute, second)) * 1000


def _ms(seconds):
    """Seconds as whole ms, rounded up."""
    return math.ceil(math.floor(seconds * 1e6 + 0.5) / 1e3)


def _retry_after(get, now, server_now):
    text = (get("retry-after") or "").strip()
    if SECONDS.fullmatch(text):
        seconds = float(text)
        return math.inf if seconds > SECONDS_MAX else _ms(seconds)
    at = parse_date(text, now)
    return None if at is None else max(0, at - server_now)


def _reset_ms(seconds, server_now):
    if seconds is None or seconds < EPOCH_S_MIN:
        return None if seconds is None else _ms(seconds)
    if seconds > SECONDS_MAX * 10:
        return math.inf
    at = seconds if seconds > EPOCH_MS_MIN else seconds * 1000
    return max(0, math.ceil(at - server_now))


def _whole(item):
    return item.value if item is not None and item.kind == "integer" and item.value >= 0 else None


def _policies(get):
    """The named policies of draft 8 and later: {name: (quota, window_ms)}."""
    told = {}
    for item in parse_list(get("ratelimit-policy")) or ():
        quota, window = _whole(item.parameters.get("q")), _whole(item.parameters.get("w"))
        if item.kind in ("string", "token") and quota is not None:
            told[item.value] = (quota, None if window is None else window * 1000)
    return told


def _tightest(limits):
    """Of several limits the one that a client has to heed: of those with nothing left the longest wait, else the least
    that is left a second."""
    spent = [limit for limit in limits if limit.remaining == 0]
    if spent:
        return max(spent, key=lambda limit: limit.reset_ms or 0)
    return min(limits, key=lambda limit: limit.remaining / max(1, limit.reset_ms or 1))


def _by_list(get):
    """Drafts 8 to 10: `"default";r=50;t=30`; a name may be a token as well. None where any member is malformed."""
    items = parse_list(get("ratelimit"))
    if not items:
        return None
    named, limits = _policies(get), []
    for item in items:
        remaining, wait = _whole(item.parameters.get("r")), _whole(item.parameters.get("t"))
        if item.kind not in ("string", "token") or remaining is None or ("t" in item.parameters and wait is None):
            return None
        quota, window = named.get(item.value, (None, None))
        limits.append(Advice(remaining=remaining, reset_ms=None if wait is None else wait * 1000, quota=quota,
                             window_ms=window))
    return _tightest(limits)


def _by_dictionary(get, server_now):
    """Draft 7: `limit=100, remaining=50, reset=5`."""
    items = parse_dictionary(get("ratelimit"))
    remaining = _whole((items or {}).get("remaining"))
    if remaining is None:
        return None
    return Advice(remaining=remaining, reset_ms=_reset_ms(_whole(items.get("reset")), server_now),
                  quota=_whole(items.get("limit")))


def _numbers(text):
    """The numbers with which the members of a field begin: `10, 10;w=1;name="x"` is [10, 10]. None if one has none."""
    if not isinstance(text, str) or len(text) > 1024:
        return None
    found = [FIRST_NUMBER.fullmatch(part) for part in text.split(",")]
    return [_number(match.group(1)) for match in found] if all(found) else None


def _number(text):
    return float(text) if "." in text else int(text)


def _by_three(get, prefix, server_now):
    """Three fields, whose names begin alike. Several lines are of several limiters: what is least left, what lasts
    longest."""
    remaining = _numbers(get(prefix + "-remaining"))
    if not remaining:
        return None
    reset, limit = _numbers(get(prefix + "-reset")), _numbers(get(prefix + "-limit"))
    return Advice(remaining=math.floor(min(remaining)), quota=limit[0] if limit else None,
                  reset_ms=max(_reset_ms(seconds, server_now) for seconds in reset) if reset else None)


def _limit_of(get, server_now):
    age = (get("age") or "").strip()
    if re.fullmatch("[0-9]+", age) and age.strip("0"):
        return None
    return (_by_list(get) or _by_dictionary(get, server_now) or _by_three(get, "ratelimit", server_now)
            or _by_three(get, "x-ratelimit", server_now) or _by_three(get, "x-rate-limit", server_now))


def _is_limited(status, wait_ms, limit):
    """Is this the answer of somebody who limits us? 429 always, 420 of old; 503 where it says when to come back; 403 as
    GitHub has it: with Retry-After, or with nothing left."""
    if status in (429, 420):
        return True
    spent = limit is not None and limit.remaining == 0
    return (status == 503 and wait_ms is not None) or (status == 403 and (wait_ms is not None or spent))


def advise(status, get, now):
    """What a response says, as an Advice.

    status  its status
    get     a function from a field's name in lower case to its value (lines joined by commas), or None
    now     ms since 1970, for dates, where the response has no Date of its own
    """
    server_now = parse_date((get("date") or "").strip(), now)
    server_now = now if server_now is None else server_now
    told = _retry_after(get, now, server_now)
    limit = _limit_of(get, server_now)
    advice = limit or Advice()
    advice.limited = _is_limited(status, told, limit)
    advice.wait_ms = advice.reset_ms if advice.remaining == 0 else None
    if status >= 400 and told is not None:
        advice.wait_ms = told
    return advice
