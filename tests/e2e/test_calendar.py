"""Windows of the calendar beside Python's zoneinfo: where each hour, day, week, month and year of a time zone ends, for
dates chosen by name, for the changes of every zone's clocks, and at random instants from 1970 to 2262.

What Python says is worked out another way (tests/cases/zones.py). Each window is asked for by traffic of its own in
`sluice replay`: a charge, a denial, the last millisecond at which it is denied still, and the first at which it is
admitted again."""

import datetime
import os
import random
import subprocess
import sys
import zoneinfo

import pytest

from harness import DEADLINE_S, ROOT
from redis_world import Redis

sys.path.insert(0, os.path.join(ROOT, "tests", "cases"))
from zones import DAY, EPOCH, UNITS, changes, window_end, window_start  # noqa: E402

UTC = datetime.timezone.utc
LAST_S = 9223372036 - 1200 * DAY  # the window behind one of then still ends before the last instant
SEED = int(os.environ.get("SLUICE_SEED", random.SystemRandom().randrange(1 << 32)))
ZONES = sorted(name for name in zoneinfo.available_timezones()
               if name[0].isupper() and not name.startswith(("SystemV/", "Factory")))


def rows(name, unit, t_ms, key):
    """Lines of traffic around the window of an instant, and the decisions that they must get."""
    end = window_end(name, unit, t_ms // 1000) * 1000
    behind = window_end(name, unit, end // 1000) * 1000 - end
    left = end - t_ms
    yield f"{t_ms} {key}", f"1 0 0 {left}"
    yield f"{t_ms} {key}", f"0 0 {left} {left}"
    if left > 1:
        yield f"{end - 1} {key}", "0 0 1 1"
    yield f"{end} {key}", f"1 0 0 {behind}"


def compare(sluice_bin, name, unit, instants_ms):
    asked = [row for i, t_ms in enumerate(instants_ms) for row in rows(name, unit, t_ms, f"k{i}")]
    done = subprocess.run([sluice_bin, "replay", "--limit", f"1/{unit} at {name}", "--format", "ops", "--decisions",
                           "-"], input="".join(line + "\n" for line, _ in asked), capture_output=True, text=True,
                          timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, done.stderr
    got = done.stdout.splitlines()
    assert len(got) == len(asked)
    for (line, expected), decision in zip(asked, got):
        at = datetime.datetime.fromtimestamp(int(line.split()[0]) / 1000, zoneinfo.ZoneInfo(name))
        assert decision == expected, f"1/{unit} at {name}, {line} ({at.isoformat()}): {decision}, not {expected}"


def ms(text):
    return int(datetime.datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


# Zone, and UTC instants around which something happens there.
NAMED = [
    ("UTC", "1970-01-01T00:00 1972-02-29T12:00 1999-12-31T23:59 2000-02-29T00:00 2100-02-28T23:00 2248-02-29T23:59"),
    ("Europe/Berlin", "1970-01-01T00:30 2024-03-31T00:59 2024-03-30T23:00 2024-10-26T22:00 2024-10-27T00:30 "
                      "2024-10-27T01:30 2024-02-29T10:00 2100-03-28T00:30 2200-10-26T00:30 2255-01-01T00:00"),
    ("Europe/Dublin", "2024-03-31T00:30 2024-10-27T00:30 2200-10-26T00:30"),  # summer is its standard time
    ("America/New_York", "2007-03-11T06:59 2007-11-04T05:30 2024-12-31T23:00 2025-01-01T04:59 2200-03-09T06:59"),
    ("America/St_Johns", "2006-04-02T03:30 2006-10-29T02:30 2006-10-29T02:31 2006-10-29T03:00"),  # at 00:01
    ("America/Sao_Paulo", "2018-11-03T12:00 2018-11-04T02:59 2018-11-04T03:00 2018-02-18T01:30 2018-02-18T02:30"),
    ("America/Havana", "2024-03-10T04:59 2024-11-03T04:30 2024-11-03T05:30 2024-11-03T12:00"),  # midnight twice
    ("America/Scoresbysund", "2024-03-31T00:30 2024-03-30T23:30 2024-10-27T00:30"),
    ("Africa/Cairo", "2024-04-25T21:59 2024-04-25T22:00 2024-10-31T20:30 2024-10-31T21:30 2010-08-10T21:30"),
    ("Africa/Casablanca", "2024-03-10T01:59 2024-04-14T02:30 2087-05-11T00:00 2100-01-01T00:00"),
    ("Africa/Monrovia", "1972-01-07T00:44 1972-01-07T00:45 1972-01-06T23:59"),  # 44:30
    ("Asia/Beirut", "2024-03-30T21:59 2024-03-30T22:00 2024-10-26T20:30 2024-10-26T21:30"),
    ("Asia/Gaza", "2024-04-19T23:30 2085-10-20T00:00 2200-05-05T12:00"),
    ("Asia/Kathmandu", "1985-12-31T18:29 1985-12-31T18:30 1985-12-31T19:00 2024-02-29T18:15"),
    ("Asia/Kolkata", "2024-06-30T18:29 2024-06-30T18:30"),
    ("Asia/Tehran", "2021-03-21T20:29 2021-09-21T19:30"),
    ("Antarctica/Casey", "2020-10-03T16:00 2020-10-03T16:01 2018-03-10T17:00 2023-03-08T18:00"),  # by 3 hours
    ("Antarctica/Troll", "2024-03-31T00:30 2024-10-27T00:30 2250-03-31T00:30"),  # by 2 hours
    ("Australia/Lord_Howe", "2024-04-06T14:30 2024-04-06T15:15 2024-10-05T15:15 2024-10-05T15:45 2250-04-06T15:01"),
    ("Pacific/Apia", "2011-12-29T12:00 2011-12-30T09:59 2011-12-30T10:00 2011-12-25T10:00 2011-12-31T12:00"),
    ("Pacific/Kwajalein", "1993-08-20T12:30 1993-08-21T11:59 1993-08-21T12:00"),
    ("Pacific/Kiritimati", "1994-12-31T09:59 1994-12-31T10:00 2024-12-31T10:00"),
    ("Pacific/Chatham", "2024-04-06T13:45 2024-09-28T13:44 2024-09-28T14:15"),
    ("Etc/GMT+12", "2024-01-01T11:59 2024-01-01T12:00"),
]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("name,instants", NAMED, ids=[name for name, _ in NAMED])
def test_by_name(sluice_bin, name, instants, unit):
    compare(sluice_bin, name, unit, [ms(text) + extra for text in instants.split() for extra in (0, 1, 59_999)])


def some_instants(dice, name):
    """Anywhere, and about a change of the clocks, where the zone has one in some year."""
    yield dice.randrange(LAST_S) * 1000 + dice.randrange(1000)
    year = dice.choice((dice.randrange(1970, 2040), dice.randrange(2040, 2257)))
    start = (datetime.date(year, 1, 1).toordinal() - EPOCH) * DAY
    for change in changes(name, start, start + 366 * DAY, 10 * DAY):
        yield max(0, change * 1000 + dice.choice((-1, 0, 1, dice.randrange(-2 * DAY, 2 * DAY) * 1000)))


def test_every_zone(sluice_bin):
    dice = random.Random(SEED)
    print(f"SLUICE_SEED={SEED}")
    assert len(ZONES) > 400
    for name in ZONES:
        compare(sluice_bin, name, dice.choice(UNITS), list(some_instants(dice, name)))


REFUSED = [
    ("10/day at Europe/Berln", 11, "did you mean Europe/Berlin?"),
    ("10/day at berlin", 11, "did you mean Europe/Berlin?"),
    ("10/day at europe/berlin", 11, "did you mean Europe/Berlin?"),
    ("10/day at Nowhere/Land", 11, "expected the name of a time zone such as Europe/Berlin"),
    ("10/day at ../../../etc/passwd", 11, "expected the name of a time zone"),
    ("10/day at /etc/passwd", 11, "expected the name of a time zone"),
    ("10/day at Europe/../Europe/Berlin", 11, "expected the name of a time zone"),
    ("10/day at Europe//Berlin", 11, "expected the name of a time zone"),
    ("10/day at Europe/", 11, "expected the name of a time zone"),
    ("10/day at Europe", 11, "expected the name of a time zone"),
    ("10/day at right/Europe/Berlin", 11, "expected the name of a time zone"),
    ("10/day at localtime", 11, "expected the name of a time zone"),
    ("10/day at " + "A" * 300, 11, "expected the name of a time zone"),
    ("10/day at", 10, "expected a space and the option's value"),
    ("10/day at UTC at UTC", 15, "expected the option 'at', once"),
    ("10/day burst 3", 8, "expected the option 'at', once"),
    ("10/days", 4, "expected a window"),
    ("10/1day", 6, "expected a space or the end"),
    ("10/1d at UTC", 7, "expected the end"),
    ("fixed-window 10/1d at UTC", 20, "expected the end"),
    ("sliding-log 10/day", 16, "fixed-window's alone"),
    ("token-bucket 10/month at UTC", 17, "fixed-window's alone"),
]


@pytest.mark.parametrize("limit,column,why", REFUSED, ids=[row[0][:40] for row in REFUSED])
def test_refused(sluice_bin, limit, column, why):
    done = subprocess.run([sluice_bin, "replay", "--limit", limit, "--format", "ops", "-"], input="", text=True,
                          capture_output=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 2
    assert f"column {column}" in done.stderr, done.stderr
    assert any(part in done.stderr for part in why.split("|")), done.stderr


def replay(sluice_bin, limit, **env):
    return subprocess.run([sluice_bin, "replay", "--limit", limit, "--format", "ops", "--decisions", "-"],
                          input="1729980000000 a\n", text=True, capture_output=True, timeout=DEADLINE_S, check=False,
                          env={**os.environ, **env})


def test_another_folder(sluice_bin, tmp_path):
    """TZDIR names where zones are; files that are none, or count leap seconds, are refused."""
    source = os.path.join(next(p for p in zoneinfo.TZPATH if os.path.exists(os.path.join(p, "Asia/Kathmandu"))),
                          "Asia/Kathmandu")
    with open(source, "rb") as file:
        good = file.read()
    for name, content in (("Mine", good), ("Cut", good[:-5]), ("Empty", b""), ("Text", b"hello\n" * 20),
                          ("Large", good + b"\0" * 70000), ("Leaps", leaping(good))):
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "Pipe")
    (tmp_path / "Europe").mkdir()
    assert replay(sluice_bin, "1/day at Mine", TZDIR=str(tmp_path)).stdout == "1 0 0 72900000\n"
    for name in ("Cut", "Empty", "Text", "Large", "Leaps", "Pipe", "Europe", "Europe/Berlin"):
        done = replay(sluice_bin, f"1/day at {name}", TZDIR=str(tmp_path))
        assert done.returncode == 2 and "expected the name of a time zone" in done.stderr, (name, done)
    assert replay(sluice_bin, "1/day at UTC", TZDIR="/nonexistent").returncode == 0


def leaping(good):
    """The same file with one leap second in its second block: those of "right/"."""
    second = good.index(b"TZif", 4)
    counts = [int.from_bytes(good[second + 20 + 4 * i:second + 24 + 4 * i], "big") for i in range(6)]
    ut, standard, leaps, times, types, letters = counts
    assert leaps == 0
    behind = second + 44 + times * 9 + types * 6 + letters
    one = (78796800).to_bytes(8, "big") + (1).to_bytes(4, "big")
    return good[:second + 28] + (1).to_bytes(4, "big") + good[second + 32:behind] + one + good[behind:]


def test_in_the_module(sluice_bin):
    """A counter lives to the end of its window, also where the next is longer; it is saved and read with its zone."""
    limit, day = "2/month at Europe/Berlin", DAY * 1000
    redis = Redis()
    try:
        with redis.resp() as r:
            january = ms("2024-01-31T11:00")  # noon there, twelve hours before February
            assert r.call("SLUICE.CHECK", "k", 1, "AT", january, limit)[:5] == [1, 2, 1, 0, day // 2]
            assert r.call("PTTL", "k") < day
            february = january + day // 2
            assert r.call("SLUICE.CHECK", "k", 1, "AT", february, limit)[:5] == [1, 2, 1, 0, 29 * day]
            assert r.call("PTTL", "k") > 28 * day
            r.call("DEBUG", "RELOAD")
            assert r.call("SLUICE.CHECK", "k", 1, "AT", february + 1, limit)[:5] == [1, 2, 0, 0, 29 * day - 1]
            assert r.call("SLUICE.CHECK", "k", 1, "AT", february + 29 * day - 1, limit)[:5] == [0, 2, 0, 1, 1]
            assert r.call("SLUICE.CHECK", "k", 1, "AT", february + 29 * day, limit)[0] == 1
    finally:
        redis.stop()


def test_in_headers(server):
    """w is the length of the present window; the policy's limit is printed in full."""
    one = server(policy="limits:\n  - {name: bill, key: user, limit: 1M/month at Europe/Berlin}\n")
    with one.http() as http:
        before = int(datetime.datetime.now(UTC).timestamp())
        status, headers, body = http.post("/v1/admit", {"attributes": {"user": "a"}})
    lengths = {window_end("Europe/Berlin", "month", t) - window_start("Europe/Berlin", "month", t)
               for t in (before - 60, before + 60)}
    assert status == 200
    fields = {name.lower(): value for name, value in headers}
    assert fields["ratelimit-policy"] in {f'"bill";q=1000000;w={length}' for length in lengths}
    assert body["limits"][0]["limit"] == "fixed-window 1000000/month at Europe/Berlin"
