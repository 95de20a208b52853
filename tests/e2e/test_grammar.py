"""One table of commands, asked of the server and of the module: every form, every word, and what is wrong with each.
The answer, or the error, is the same at both. Each row is of keys of its own; the time is told, and stands still."""

import pytest

from harness import RespError, Server, encode
from redis_world import MANY_YEARS_MS, Clock, Redis

NOW = 1_728_000_000_000
LEASE, MEMBERS, WINDOW = "concurrency 2 lease 5s", "distinct 5/1h", "fixed-window 9/1m"
BUCKET = "token-bucket 10/1s burst 10"
TICKET = "00000000000000aa.AQQRZml4ZWQtd2luZG93IDkvMW0"  # of the reservation aa at WINDOW, of the key that is said
COST = "expected a whole number from 0 to 4294967295"
TTL = "expected a whole number from 1 to 316224000000"
AT = ["AT", NOW]

# words without SLUICE., the answer or the error behind ERR
TABLE = [
    # forms
    (["CHECK", "k", 2, *AT, WINDOW], [1, 9, 7, 0, 60000, 0, 0]),
    (["CHECK", "k", 2, WINDOW, 7, *AT], "limit 2, column 2: "),
    (["check", "k", 2, "at", NOW, WINDOW, "key", "j", WINDOW], [1, 9, 7, 0, 60000, 0, 0]),
    (["PEEK", "k", 2, *AT, WINDOW], [1, 9, 9, 0, 0, 0, 0]),
    (["REFUND", "k", 2, *AT, WINDOW], [1, 9, 9, 0, 0, 0, 0]),
    (["RESET", "k", *AT, WINDOW], 0),
    (["ACQUIRE", "k", 1, *AT, "ID", "x", LEASE], [1, 2, 1, 0, 5000, 0, 0, b"x"]),
    (["ACQUIRE", "k", 3, *AT, "ID", "x", LEASE], [0, 2, 2, -1, 0, 0, 0, None]),
    (["RELEASE", "k", "x", *AT, LEASE], 0),
    (["RENEW", "k", "x", *AT, LEASE], 0),
    (["HOLDERS", "k", *AT, LEASE], []),
    (["RESERVE", "k", 2, 5000, *AT, "ID", "00000000000000aa", WINDOW], [1, 9, 7, 0, 5000, 0, 0, TICKET.encode()]),
    (["COMMIT", "k", TICKET, 1, *AT], RespError(
        "NOTFOUND no such reservation is open: it was committed before, was returned at the end of its ttl, or belongs "
        "to another key")),
    # words
    (["CHECK", "k", 12, *AT, "UPTO", WINDOW], [1, 9, 0, 0, 60000, 0, 0, 9]),
    (["CHECK", "k", 12, WINDOW, "upto", "MEMBER", "m"], [1, 9, 0, 0, None, 0, 0, 9]),
    (["CHECK", "k", 1, *AT, "ID", "t", WINDOW], [1, 9, 8, 0, 60000, 0, 0]),
    (["CHECK", "k", 1, *AT, MEMBERS, "MEMBER", "m", MEMBERS], [1, 5, 4, 0, 3600000, 0, 0]),
    (["CHECK", "k", 1, *AT, "MEMBER", "KEY", MEMBERS], [1, 5, 4, 0, 3600000, 0, 0]),
    (["REFUND", "k", 1, *AT, "MEMBER", "m", MEMBERS], [1, 5, 5, 0, 0, 0, 0]),
    # NEXT
    (["CHECK", "k", 5, *AT, "NEXT", BUCKET], [1, 10, 5, 0, 500, 0, 0, 100]),
    (["CHECK", "k", 5, "next", *AT, BUCKET, WINDOW], [1, 9, 4, 0, 60000, 0, 1, 60000]),
    (["CHECK", "k", 50, *AT, BUCKET, "NEXT", "UPTO"], [1, 10, 0, 0, 1000, 0, 0, 10, 100]),
    (["PEEK", "k", 5, *AT, "NEXT", BUCKET], [1, 10, 10, 0, 0, 0, 0, 0]),
    (["PEEK", "k", 50, *AT, "NEXT", WINDOW], [0, 9, 9, -1, 0, 0, 0, 0]),
    (["REFUND", "k", 5, *AT, "NEXT", BUCKET], [1, 10, 10, 0, 0, 0, 0, 0]),
    (["ACQUIRE", "k", 1, *AT, "ID", "x", "NEXT", LEASE], [1, 2, 1, 0, 5000, 0, 0, b"x", 5000]),
    (["RESERVE", "k", 2, 5000, *AT, "ID", "00000000000000aa", "NEXT", WINDOW],
     [1, 9, 7, 0, 5000, 0, 0, TICKET.encode(), 5000]),
    (["CHECK", "k", 5, "NEXT", "NEXT", BUCKET], "NEXT twice: expected it once"),
    (["RESET", "k", "NEXT", BUCKET], "NEXT is no word of SLUICE.RESET"),
    (["RELEASE", "k", "x", LEASE, "NEXT"], "NEXT is no word of SLUICE.RELEASE"),
    # EACH
    (["CHECK", "k", 5, *AT, "EACH", BUCKET], [[1, 10, 5, 0, 500, 0, 100]]),
    (["CHECK", "k", 5, "each", *AT, BUCKET, "KEY", "j", WINDOW],
     [[1, 10, 5, 0, 500, 0, 100], [1, 9, 4, 0, 60000, 0, 60000]]),
    (["CHECK", "k", 5, *AT, BUCKET, "fixed-window 4/1m", "EACH"],
     [[1, 10, 10, 0, 0, 0, 0], [0, 4, 4, -1, 0, 0, 0]]),
    (["CHECK", "k", 50, *AT, "EACH", "UPTO", BUCKET, WINDOW],
     [[1, 10, 1, 0, 900, 0, 100], [1, 9, 0, 0, 60000, 0, 60000], [9, 0, 0]]),
    (["CHECK", "k", 2, *AT, "EACH", "ID", "t", WINDOW], [[1, 9, 7, 0, 60000, 0, 60000], [2, 0, 0]]),
    (["PEEK", "k", 5, *AT, "EACH", BUCKET], [[1, 10, 10, 0, 0, 0, 0]]),
    (["REFUND", "k", 5, *AT, "EACH", WINDOW], [[1, 9, 9, 0, 0, 0, 0]]),
    (["ACQUIRE", "k", 1, *AT, "EACH", "ID", "x", LEASE, WINDOW],
     [[1, 2, 1, 0, 5000, 0, 5000], [1, 9, 8, 0, 60000, 0, 60000], [1, 0, 0]]),
    (["RESERVE", "k", 2, 5000, *AT, "EACH", "ID", "x", WINDOW], [[1, 9, 7, 0, 5000, 0, 5000], [2, 0, 0]]),
    (["CHECK", "k", 1, *AT, "EACH", *[f"fixed-window 9/{n}m" for n in range(1, 17)]],
     [[1, 9, 8, 0, None, 0, None]] * 16),
    (["CHECK", "k", 1, "EACH", "NEXT", WINDOW], "NEXT and EACH: expected one of them; EACH includes it for each limit"),
    (["CHECK", "k", 1, "NEXT", "EACH", WINDOW], "NEXT and EACH: expected one of them; EACH includes it for each limit"),
    (["CHECK", "k", 1, "EACH", WINDOW, "EACH"], "EACH twice: expected it once"),
    (["RESET", "k", "EACH", WINDOW], "EACH is no word of SLUICE.RESET"),
    # numbers
    (["CHECK", "k", "x", WINDOW], f"cost 'x': {COST}"),
    (["CHECK", "k", "4294967296", WINDOW], f"cost '4294967296': {COST}"),
    (["PEEK", "k", "-1", WINDOW], f"cost '-1': {COST}"),
    (["RESERVE", "k", 1, "5s", WINDOW], f"ttl_ms '5s': {TTL}"),
    (["RESERVE", "k", 1, 316224000001, WINDOW], f"ttl_ms '316224000001': {TTL}"),
    (["RESERVE", "k", 1, 0, WINDOW], f"ttl_ms '0': {TTL}"),
    (["COMMIT", "k", TICKET, "many"], f"actual 'many': {COST}"),
    (["CHECK", "k", 1, "AT", "now", WINDOW], "AT 'now': expected Unix milliseconds, a whole number from 0 to "
                                             "9223372036854"),
    # where words stand, and what they need
    (["CHECK", "k", 1, WINDOW, *AT], "AT after a limit: expected it before the first one"),
    (["CHECK", "k", 1, *AT, *AT, WINDOW], "AT twice: expected it once"),
    (["CHECK", "k", 1, "AT"], "AT needs an instant after it: Unix milliseconds"),
    (["CHECK", "k", 1, WINDOW, "KEY"], "KEY needs a key and at least one limit after it"),
    (["CHECK", "k", 1, "KEY", "j", WINDOW], "no limit for key 'k': expected at least one after it, such as 100/60s"),
    (["CHECK", "k", 1, WINDOW, "KEY", "j"], "no limit for key 'j': expected at least one after it, such as 100/60s"),
    (["CHECK", "k", 1, MEMBERS, "MEMBER"], "MEMBER needs a member after it: a member that distinct counts"),
    (["CHECK", "k", 1, WINDOW, "ID"], "ID needs a token after it"),
    (["CHECK", "k", 1, WINDOW, "ID", ""], "the ID '' has 0 bytes: expected 1 to 64"),
    (["CHECK", "k", 1, WINDOW, "ID", "a", "ID", "b"], "ID twice: expected it once"),
    (["CHECK", "k", 1, "UPTO", WINDOW, "UPTO"], "UPTO twice: expected it once"),
    (["PEEK", "k", 1, "ID", "t", WINDOW], "ID is no word of SLUICE.PEEK"),
    (["REFUND", "k", 1, "UPTO", WINDOW], "UPTO is no word of SLUICE.REFUND"),
    (["RESET", "k", "MEMBER", "m", WINDOW], "MEMBER is no word of SLUICE.RESET"),
    (["CHECK", "k", 1, *[WINDOW] * 17], "too many limits: at most 16 in one request"),
    (["CHECK", "k", 1, "9/1m", "10/1x"], "limit 2, column 5: expected a unit of time: ms, s, m, h, d or w, found 'x'"),
    # what an operation can't do
    (["CHECK", "k", 1, WINDOW, LEASE], "limit 2: concurrency is acquired and released: SLUICE.ACQUIRE"),
    (["REFUND", "k", 1, LEASE], "limit 1: concurrency takes no refund: SLUICE.RELEASE ends a lease, "
     "SLUICE.RESET all that is counted"),
    (["RESERVE", "k", 1, 5, LEASE], "limit 1: concurrency is acquired and released: SLUICE.ACQUIRE"),
    (["RESERVE", "k", 1, 5, MEMBERS], "limit 1: distinct is not reserved: SLUICE.CHECK decides it at once"),
    (["CHECK", "k", 1, MEMBERS], "limit 1: distinct counts members: expected MEMBER and the member, as in SLUICE.CHECK "
                                 "key 1 MEMBER 192.0.2.1 \"distinct 50/1h\""),
    (["ACQUIRE", "k", 1, WINDOW], "no limit of concurrency among the limits: expected one, or SLUICE.CHECK"),
    (["HOLDERS", "k", WINDOW], "expected one limit of concurrency: others have no holders"),
    (["HOLDERS", "k", LEASE, LEASE], "expected one limit of concurrency: others have no holders"),
    # ids and tickets
    (["RELEASE", "k", "x"], "no limit for key 'k': expected at least one after it, such as 'concurrency 20 lease 30s'"),
    (["RENEW", "k", "", LEASE], "the id '' has 0 bytes: expected 1 to 64"),
    (["RELEASE", "k", "00000000000000aa.A"], "no ticket: '00000000000000aa.A': expected it as SLUICE.ADMIT gave it"),
    (["RELEASE", "k", TICKET, LEASE], "the ticket says its limits: expected nothing after it but AT, found "
                                      "'concurrency 2 lease 5s'"),
    (["COMMIT", "k", "00000000000000aa", 1], "no ticket: '00000000000000aa': expected it as SLUICE.RESERVE or "
                                             "SLUICE.ADMIT gave it"),
    (["COMMIT", "k", TICKET, 1, WINDOW], "the ticket says its limits: expected nothing after it and the cost but AT, "
                                         "NEXT and EACH, found 'fixed-window 9/1m'"),
    # too little
    (["CHECK", "k", 1], "wrong number of arguments for 'sluice.check' command"),
    (["RELEASE", "k"], "wrong number of arguments for 'sluice.release' command"),
    (["RESERVE", "k", 1, 5], "wrong number of arguments for 'sluice.reserve' command"),
    (["COMMIT", "k", TICKET], "wrong number of arguments for 'sluice.commit' command"),
]

# what only fronts say
FRONTS = ["NAME", "OBSERVED", "TRIED", "TERMS", "COST", "TTL", "BESIDE", "KEEP"]


@pytest.fixture(scope="module")
def doors(sluice_bin):
    clock = Clock(MANY_YEARS_MS)
    module = Redis(clock=clock)
    server = Server(sluice_bin, "client-time: true\nlimits: []\n")
    with module.resp() as there, server.resp() as here:
        yield {"server": here, "module": there}
    server.stop()
    module.stop()
    clock.close()


def ask(client, words):
    client.send(encode(*words))
    return client.read()


def like(got, want):
    """None stands for anything but nil, in numbers."""
    if isinstance(want, list):
        return len(got) == len(want) and all(like(g, w) for g, w in zip(got, want))
    return got == want or (want is None and isinstance(got, int))


def shown(reply):
    return str(reply) if isinstance(reply, RespError) else reply


@pytest.mark.parametrize("row", range(len(TABLE)), ids=str)
@pytest.mark.parametrize("door", ["server", "module"])
def test_every_form_and_every_error(doors, door, row):
    words, expected = TABLE[row]
    words = ["SLUICE." + words[0], f"{{{row}}}" if words[1] == "k" else words[1],
             *[f"{{{row}}}{w}" if w == "j" and words[i - 1] in ("KEY", "key") else w for i, w in enumerate(words)][2:]]
    got = ask(doors[door], words)
    if isinstance(expected, str):
        assert isinstance(got, RespError), got
        want = "ERR " + expected.replace("'k'", f"'{{{row}}}'").replace("'j'", f"'{{{row}}}j'")
        assert str(got) == want if not want.endswith(" ") else str(got).startswith(want)
    elif isinstance(expected, list):
        assert len(got) == len(expected), got
        assert all(like(g, want) for g, want in zip(got, expected)), got
    else:
        assert shown(got) == shown(expected)


@pytest.mark.parametrize("word", FRONTS)
def test_what_only_fronts_say_is_no_word_of_the_server(doors, word):
    got = ask(doors["server"], ["SLUICE.PEEK", "k", 1, word, "x", WINDOW])
    assert isinstance(got, RespError) and str(got) == f"ERR {word} is no word of SLUICE.PEEK"


INSPECTED = ["9/1m", "fixed-window 9/1m", "sliding-buckets 9/1m precision 10s edge count", "sliding-log 9/1m",
             "token-bucket 9/1m burst 9", "leaky-bucket 9/1m queue 8"]


def told(reply):
    """The names and values of each limit."""
    return [dict(zip((x.decode() for x in one[::2]), one[1::2])) for one in reply]


def test_both_inspect(doors):
    answers = {}
    for door, client in doors.items():
        for after in (0, 7000, 12345):
            ask(client, ["SLUICE.CHECK", "inspected", 2, "AT", NOW + after, *INSPECTED])
        ask(client, ["SLUICE.ACQUIRE", "inspected", 1, "AT", NOW + 100, "ID", "x", LEASE])
        answers[door] = told(ask(client, ["SLUICE.INSPECT", "inspected", "AT", NOW + 13000, *INSPECTED, LEASE]))
    wrong = ask(doors["server"], ["SLUICE.INSPECT", "inspected", "UPTO", WINDOW])
    assert str(wrong) == "ERR UPTO is no word of SLUICE.INSPECT"
    more = [(one.pop("held"), one.pop("slices")) for one in answers["module"]]
    assert more == [(0, [])] * len(more) and answers["module"] == answers["server"]
    log = answers["server"][3]
    assert (log["limit"], log["key"]) == (b"sliding-log 9/1m", b"inspected")
    assert (log["allowed"], log["quota"], log["remaining"], log["used"]) == (1, 9, 3, 6)
    assert (log["oldest_ms"], log["last_ms"], log["charges_in_all"]) == (NOW, NOW + 12345, 3)
    assert log["charges"] == [[NOW + t, NOW + t + 60000, 2] for t in (0, 7000, 12345)]
    assert log["returns"] == [[47000, 5], [54000, 7], [59345, 9]] and log["next_after_ms"] == 47000
    buckets, lease = answers["server"][2], answers["server"][6]
    assert buckets["charges"] == [[NOW, NOW + 70000, 4], [NOW + 10000, NOW + 80000, 2]]
    assert lease["charges"] == [[NOW + 100, NOW + 5100, 1]] or lease["used"] == 0
