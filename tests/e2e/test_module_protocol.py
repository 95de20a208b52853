"""The module as a Redis user meets it: arguments and errors, wrong types, full memory, users, transactions, scripts,
introspection, both protocols, what other commands do to its keys, when keys expire, and real clients.
"""

import json
import os
import subprocess

import pytest
import redis as redis_py

from foreign import redis_server
from harness import DEADLINE_S, RespError, encode, wait_until
from ports import free_port
from redis_world import MANY_YEARS_MS, Clock, Redis, module_path

NOW = 1_728_000_000_000
# verb -> what stands between key and limits
VERBS = {"CHECK": ["1"], "PEEK": ["1"], "REFUND": ["1"], "RESET": [], "HOLD": ["1", "a1", "1000"],
         "CONFIRM": ["1", "a1"], "CANCEL": ["a1"], "LEASE": ["a1", "1000", "0", "1"]}


@pytest.fixture(scope="module")
def host():
    clock = Clock(MANY_YEARS_MS)
    one = Redis(clock=clock)
    yield one
    one.stop()
    clock.close()


@pytest.fixture
def client(host):
    with host.resp() as one:
        yield one
        one.call("FLUSHALL")


def refusal(client, *words):
    client.send(encode(*words))
    reply = client.read()
    assert isinstance(reply, RespError), (words, reply)
    return str(reply)


# ---- arguments -------------------------------------------------------------------------------------------------------

def test_a_front_asks_what_it_may_say(client):
    assert client.call("SLUICE.LEASE") == 3
    assert client.call("COMMAND", "GETKEYS", "SLUICE.LEASE", "k", "a", 1000, 0, 1, "10/1s") == [b"k"]
    # EXACT, in either case, tells how much the wait was rounded up by: 1/7 s is 142,857,143 ns
    limit = "token-bucket 7/1s burst 1"
    assert client.call("SLUICE.CHECK", "k", 1, "AT", 0, "exact", limit) == [[1, 1, 0, 0, 143, 0, 143, 0]]
    assert client.call("SLUICE.CHECK", "k", 1, "AT", 0, "EXACT", limit) == [[0, 1, 0, 143, 143, 0, 143, 142_857]]
    assert client.call("SLUICE.CHECK", "k", 2, "AT", 0, "EXACT", limit)[0][3::4] == [-1, 0]


@pytest.mark.parametrize("verb", list(VERBS))
def test_every_verb_with_too_little(client, verb):
    words = ["SLUICE." + verb, "k", *VERBS[verb], "10/1s"]
    client.call(*words)
    client.call("FLUSHALL")
    for count in range(2 if verb == "LEASE" else 1, len(words)):
        assert refusal(client, *words[:count]).startswith("ERR "), words[:count]
    assert client.call("DBSIZE") == 0


def bad_words():
    yield "cost", [[x, "10/1s"] for x in ("", "-1", "+1", "1.5", "01x", "4294967296", "18446744073709551617", "one",
                                          " 1")]
    yield "limit", [["1", x] for x in ("", "10", "10/1x", "x/1s", "4294967296/1s", "nonsense", "10/1s ",
                                       "10/1s burst 3",
                                       "token-bucket 10/1s burst 0", "sliding-buckets 1/1s precision 7ms", "10/0s",
                                       "concurrency 3", "10/1s\0", "x" * 5000)]
    yield "AT", [["1", "AT", x, "10/1s"] for x in ("", "-1", "x", "1.5", "99999999999999999999",
                                                   "18446744073709551616")]
    yield "AT and nothing", [["1", "AT"], ["1", "AT", str(NOW)], ["1", "EACH"], ["1", "AT", str(NOW), "EACH"]]
    yield "KEY", [["1", "KEY"], ["1", "KEY", "b"], ["1", "10/1s", "KEY"], ["1", "10/1s", "KEY", "b"],
                  ["1", "KEY", "b", "10/1s"], ["1", "10/1s", "KEY", "b", "KEY", "c", "10/1s"]]
    yield "NAME", [["1", "NAME"], ["1", "NAME", "n"], ["1", "NAME", "", "10/1s"], ["1", "NAME", "n" * 65, "10/1s"]]
    yield "OBSERVED", [["1", "OBSERVED"], ["1", "10/1s", "TRIED"], ["1", "OBSERVED", "TRIED"]]
    yield "too many", [["1", *["10/1s"] * 17]]


@pytest.mark.parametrize("what,calls", list(bad_words()), ids=[what for what, _ in bad_words()])
def test_bad_words_change_nothing(client, what, calls):
    client.call("SLUICE.CHECK", "k", 3, "AT", NOW, "10/1s")
    before = client.call("DUMP", "k")
    for call in calls:
        for verb in ("CHECK", "PEEK", "REFUND"):
            assert refusal(client, "SLUICE." + verb, "k", *call).startswith("ERR "), call
    assert client.call("DUMP", "k") == before and client.call("DBSIZE") == 1


def test_errors_say_what_and_where(client):
    assert "column 5" in refusal(client, "SLUICE.CHECK", "k", 1, "10/1x")
    assert "limit 2" in refusal(client, "SLUICE.CHECK", "k", 1, "10/1s", "11/1q")
    assert "4294967295" in refusal(client, "SLUICE.CHECK", "k", "4294967296", "10/1s")
    assert "16" in refusal(client, "SLUICE.CHECK", "k", 1, *["10/1s"] * 17)
    hold = ["SLUICE.HOLD", "k", 1]
    assert "hex" in refusal(client, *hold, "xyz", 1000, "10/1s")
    assert "hex" in refusal(client, *hold, "0" * 17, 1000, "10/1s")
    assert "hex" in refusal(client, *hold, "", 1000, "10/1s")
    assert "60000" in refusal(client, *hold, "a", 0, "10/1s")
    assert "60000" in refusal(client, *hold, "a", 60001, "10/1s")
    assert "lease" in refusal(client, "SLUICE.LEASE", "k", "a", 1000, 0, 1, "10/1s", "11/1s")
    assert "lease" in refusal(client, "SLUICE.LEASE", "k", "a", 1000, 0, 1, "OBSERVED", "10/1s")
    assert client.call("DBSIZE") == 0


def test_words_are_matched_without_case(client):
    reply = client.call("sluice.check", "a", 1, "at", NOW, "each", "name", "n", "observed", "10/1h", "key", "b",
                        "tried", "9/1h")
    assert [one[:3] for one in reply] == [[1, 10, 9], [1, 9, 9]]
    assert client.call("KEYS", "*") == [b"a"]


@pytest.mark.parametrize("make", [["SET", "k", "x"], ["RPUSH", "k", "x"], ["HSET", "k", "a", "b"], ["PFADD", "k", "x"]],
                         ids=["string", "list", "hash", "hyperloglog"])
def test_a_key_of_another_kind(client, make):
    client.call(*make)
    before = client.call("DUMP", "k")
    for verb, middle in VERBS.items():
        assert refusal(client, "SLUICE." + verb, "k", *middle, "10/1s").startswith("WRONGTYPE ")
        if verb != "LEASE":  # of several keys one is wrong: none is charged
            words = ["SLUICE." + verb, "fine", *middle, "10/1s", "KEY", "k", "10/1s"]
            assert refusal(client, *words).startswith("WRONGTYPE ")
    assert refusal(client, "SLUICE.INSPECT", "k").startswith("WRONGTYPE ")
    assert client.call("DUMP", "k") == before and client.call("DBSIZE") == 1


def test_other_commands_on_our_keys(client):
    client.call("SLUICE.CHECK", "k", 1, "AT", NOW, "10/1s")
    for words in (["GET", "k"], ["INCR", "k"], ["LPUSH", "k", "x"], ["HGET", "k", "a"], ["APPEND", "k", "x"]):
        assert refusal(client, *words).startswith("WRONGTYPE ")
    client.call("SET", "k", "text")  # as over any key
    assert client.call("GET", "k") == b"text"


@pytest.mark.parametrize("key", [b"", b"\x00", b"a b\r\n", bytes(range(256)), b"k" * 1024])
def test_keys_are_any_bytes(client, key):
    assert client.call("SLUICE.CHECK", key, 1, "AT", NOW, "2/1h")[:3] == [1, 2, 1]
    assert client.call("SLUICE.CHECK", "x", 1, "AT", NOW, "9/1h", "KEY", key, "2/1h")[:3] == [1, 2, 0]
    assert sorted(client.call("KEYS", "*")) == sorted([key, b"x"])


# ---- without client-time ---------------------------------------------------------------------------------------------

def test_at_is_refused_where_it_is_not_allowed(redises):
    one = redises(module=())
    with one.resp() as client:
        for verb, middle in VERBS.items():
            assert "AT is not allowed here" in refusal(client, "SLUICE." + verb, "k", *middle, "AT", NOW, "10/1s")
        assert client.call("DBSIZE") == 0
        assert client.call("SLUICE.CHECK", "k", 1, "10/1h")[:3] == [1, 10, 9]


@pytest.mark.parametrize("arguments", [["client-time"], ["client-time", "maybe"], ["nonsense"], ["nonsense", "yes"],
                                       ["client-time", "yes", "more"], [""]])
def test_wrong_load_arguments(redises, arguments):
    one = redises(module=None)
    with one.resp() as client:
        assert refusal(client, "MODULE", "LOAD", module_path(), *arguments).startswith("ERR ")
        assert b"sluice" not in [dict(zip(told[::2], told[1::2]))[b"name"] for told in client.call("MODULE", "LIST")]
        assert "client-time" in one.log()
        assert client.call("MODULE", "LOAD", module_path(), "client-time", "no") == b"OK"
        assert "not allowed" in refusal(client, "SLUICE.CHECK", "k", 1, "AT", NOW, "1/1s")
    program = subprocess.run([redis_server(), "--port", str(free_port()), "--bind", "127.0.0.1",
                              "--save", "",
                              "--dir", one.folder.name, "--loadmodule", module_path(), *arguments],
                             capture_output=True, timeout=DEADLINE_S, check=False)
    assert program.returncode != 0 and (arguments == [""] or b"client-time" in program.stdout)


def test_it_is_not_unloaded_with_its_type(redises):
    one = redises()
    with one.resp() as client:
        client.call("SLUICE.CHECK", "k", 1, "AT", NOW, "10/1h")
        assert refusal(client, "MODULE", "UNLOAD", "sluice").startswith("ERR ")
        assert refusal(client, "MODULE", "LOAD", module_path()).startswith("ERR ")
        assert client.call("SLUICE.PEEK", "k", 1, "AT", NOW, "10/1h")[:3] == [1, 10, 9]


# ---- what Redis lets run ---------------------------------------------------------------------------------------------

def test_full_memory(client):
    client.call("SLUICE.CHECK", "k", 10, "AT", NOW, "10/1h")
    client.call("SLUICE.CHECK", "spare", 3, "AT", NOW, "10/1h")
    before = client.call("DUMP", "k")
    client.call("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction")
    try:
        for verb in ("CHECK", "HOLD", "CONFIRM"):  # k is at its quota, new would have to be made
            assert client.call("SLUICE." + verb, "k", *VERBS[verb], "AT", NOW, "10/1h")[3] > 1000
            assert client.call("SLUICE." + verb, "new", *VERBS[verb], "AT", NOW, "10/1h")[:4] == [0, 10, 0, 1000]
        assert client.call("SLUICE.LEASE", "new", *VERBS["LEASE"], "AT", NOW, "10/1h")[:2] == [0, 4]
        assert client.call("CL.THROTTLE", "t", 1, 1, 1) == [1, 2, 0, 1, 1]
        assert client.call("SLUICE.REFUND", "spare", 1, "AT", NOW, "10/1h")[2] == 8
        assert client.call("SLUICE.REFUND", "new", 1, "AT", NOW, "10/1h")[2] == 10
        assert client.call("SLUICE.PEEK", "k", 1, "AT", NOW, "10/1h")[:3] == [0, 10, 0]
        assert client.call("SLUICE.CANCEL", "k", "a", "AT", NOW, "10/1h") == 0
        assert client.call("SLUICE.RESET", "spare", "AT", NOW, "10/1h") == 1
        assert len(client.call("SLUICE.INSPECT", "k")) == 1
    finally:
        client.call("CONFIG", "SET", "maxmemory", "0")
    assert client.call("DUMP", "k") == before
    assert client.call("SLUICE.CHECK", "k", 1, "AT", NOW, "10/1h")[:3] == [0, 10, 0]


def has_categories(client):
    return b"ratelimit" in client.call("ACL", "CAT")


def test_categories(host, client):
    """docs/redis.md, ACL: what a server of 7.2 or later grants by its categories."""
    if not has_categories(client):
        pytest.skip("Redis 7.0 puts no command of a module into a category")
    own, write, read = ({name for name in client.call("ACL", "CAT", category) if name.startswith((b"sluice.", b"cl."))}
                        for category in ("ratelimit", "write", "read"))
    assert read == {b"sluice.peek", b"sluice.holders", b"sluice.inspect"} and own == write | read
    ours = {name for category in ("admin", "dangerous") for name in client.call("ACL", "CAT", category)}
    overrides = {b"sluice.override" + word for word in (b"", b"|set", b"|get", b"|del", b"|list", b"|help")}
    assert {b"sluice.effect"} | overrides <= ours and not overrides & (own | write | read)
    assert b"sluice.effect" not in own and {b"sluice.check", b"sluice.reset", b"cl.throttle"} < write
    client.call("ACL", "SETUSER", "app", "on", ">p", "~rl:*", "+@ratelimit", "-sluice.reset")
    with host.resp() as app:
        app.call("AUTH", "app", "p")
        assert app.call("SLUICE.CHECK", "rl:1", 0, "10/1h")[0] == 1
        for words in (["SLUICE.RESET", "rl:1", "10/1h"], ["SLUICE.EFFECT", "rl:1", -1, "x"]):
            assert refusal(app, *words).startswith("NOPERM ")
    client.call("ACL", "SETUSER", "app", "reset", "on", ">p", "~app:*", "~rl:*", "+@read", "+@write", "+@fast",
                "+@slow", "-sluice.reset")
    with host.resp() as app:  # one with data of its own raises no quota of its own
        app.call("AUTH", "app", "p")
        assert app.call("SLUICE.CHECK", "rl:1", 0, "10/1h")[0] == 1
        for words in (["SET", "10/1h", "rl:1", "20/1h"], ["GET", "10/1h", "rl:1"], ["DEL", "10/1h", "rl:1"], ["LIST"]):
            assert refusal(app, "SLUICE.OVERRIDE", *words).startswith("NOPERM "), words
    client.call("ACL", "DELUSER", "app")


def test_users(host, client):
    client.call("ACL", "SETUSER", "app", "on", ">p", "~rl:*", "+sluice.check", "+sluice.peek")
    client.call("ACL", "SETUSER", "writer", "on", ">p", "~*", "+@write", "+@read", "+@fast")
    client.call("ACL", "SETUSER", "reader", "on", ">p", "%R~rl:*", "+sluice.check", "+sluice.peek")
    with host.resp() as app:
        app.call("AUTH", "app", "p")
        assert app.call("SLUICE.CHECK", "rl:1", 1, "10/1h")[:3] == [1, 10, 9]
        assert refusal(app, "SLUICE.CHECK", "other", 1, "10/1h").startswith("NOPERM ")
        assert refusal(app, "SLUICE.CHECK", "rl:1", 1, "10/1h", "KEY", "other", "10/1h").startswith("NOPERM ")
        words = ["SLUICE.CHECK", "rl:1", 1, "NAME", "key", "10/1h", "key", "other", "10/1h"]
        assert refusal(app, *words).startswith("NOPERM ")
        assert refusal(app, "SLUICE.RESET", "rl:1", "10/1h").startswith("NOPERM ")
        assert refusal(app, "SLUICE.EFFECT", "rl:1", -1, "x").startswith("NOPERM ")
        app.call("AUTH", "writer", "p")
        if has_categories(client):  # Redis 7.2 and later, Valkey
            assert app.call("SLUICE.CHECK", "rl:1", 0, "10/1h")[:3] == [1, 10, 9]
        else:
            assert refusal(app, "SLUICE.CHECK", "rl:1", 1, "10/1h").startswith("NOPERM ")
        assert refusal(app, "SLUICE.EFFECT", "rl:1", -1, "x").startswith("NOPERM ")
        app.call("AUTH", "reader", "p")
        assert app.call("SLUICE.PEEK", "rl:1", 1, "10/1h")[:3] == [1, 10, 9]
        assert refusal(app, "SLUICE.CHECK", "rl:1", 1, "10/1h").startswith("NOPERM ")
    assert client.call("DBSIZE") == 1
    client.call("ACL", "DELUSER", "app", "writer", "reader")


def test_commands_describe_themselves(client):
    keys = client.call("COMMAND", "GETKEYS", "SLUICE.CHECK", "a", 1, "AT", 5, "EACH", "10/1s", "KEY", "b", "NAME",
                       "KEY",
                       "1/1s", "OBSERVED", "2/1s", "key", "c", "3/1s")
    assert keys == [b"a", b"b", b"c"]
    for verb, middle in VERBS.items():
        words = ["SLUICE." + verb, "a", *middle, "10/1s", "KEY", "b", "10/1s"]
        assert client.call("COMMAND", "GETKEYS", *words) == [b"a", b"b"]
    assert client.call("COMMAND", "GETKEYS", "CL.THROTTLE", "a", 1, 2, 3) == [b"a"]
    assert client.call("COMMAND", "GETKEYS", "SLUICE.INSPECT", "a") == [b"a"]
    assert client.call("COMMAND", "GETKEYS", "SLUICE.EFFECT", "a", 1, "x") == [b"a"]
    names = [*(f"sluice.{verb.lower()}" for verb in VERBS), "sluice.inspect", "sluice.effect", "cl.throttle"]
    for name, info in zip(names, client.call("COMMAND", "INFO", *names)):
        flags = set(info[2])
        assert info[0] == name.encode() and info[3:6] == [1, 1, 1]
        assert (b"readonly" in flags) == (name in ("sluice.peek", "sluice.inspect")) != (b"write" in flags)
        assert b"denyoom" not in flags, "what has no memory is denied, not refused"


def test_command_docs(client):
    docs = client.call("COMMAND", "DOCS", "sluice.check", "sluice.peek", "cl.throttle")
    for name, said in zip(docs[::2], docs[1::2]):
        said = dict(zip(said[::2], said[1::2]))
        assert said[b"summary"] and said[b"complexity"] and said[b"group"] == b"module", name
    specs = dict(zip(*[iter(client.call("COMMAND", "INFO", "sluice.check")[0][8][0])] * 2))
    assert b"RW" in specs[b"flags"] or "RW" in str(specs[b"flags"])


def test_both_protocols(host, client):
    with host.resp() as third:
        third.call("HELLO", "3")
        for verb, *rest in (["CHECK", 1, "AT", NOW, "10/1h"], ["PEEK", 1, "AT", NOW, "EACH", "10/1h", "5/1m"],
                            ["LEASE", "a", 1000, 0, 2, "AT", NOW, "10/1h"], ["RESET", "AT", NOW, "10/1h"]):
            assert third.call("SLUICE." + verb, "third", *rest) == client.call("SLUICE." + verb, "second", *rest)
        client.call("SLUICE.CHECK", "k", 1, "AT", NOW, "10/1h")
        maps, flat = third.call("SLUICE.INSPECT", "k"), client.call("SLUICE.INSPECT", "k")
        assert [dict(zip(one[::2], one[1::2])) for one in flat] == maps and maps[0][b"algorithm"] == b"sliding-window"
        assert third.call("SLUICE.INSPECT", "none") == []
        assert refusal(third, "SLUICE.CHECK", "k", 1, "x").startswith("ERR ")


def test_transactions(host, client):
    client.call("MULTI")
    for _ in range(3):
        assert client.call("SLUICE.CHECK", "k", 1, "AT", NOW, "2/1h") == b"QUEUED"
    assert [reply[:3] for reply in client.call("EXEC")] == [[1, 2, 1], [1, 2, 0], [0, 2, 0]]
    client.call("WATCH", "k")
    with host.resp() as other:
        assert other.call("SLUICE.CHECK", "k", 1, "AT", NOW, "2/1h")[0] == 0  # a denial changes nothing
        assert other.call("SLUICE.PEEK", "k", 0, "AT", NOW, "2/1h")[0] == 1
    client.call("MULTI")
    client.call("SET", "seen", "1")
    assert client.call("EXEC") == [b"OK"]
    client.call("WATCH", "k")
    with host.resp() as other:
        other.call("SLUICE.REFUND", "k", 1, "AT", NOW, "2/1h")
    client.call("MULTI")
    client.call("SET", "seen", "2")
    assert client.call("EXEC") is None


def test_from_lua(client):
    script = "return redis.call('SLUICE.CHECK', KEYS[1], ARGV[1], 'AT', ARGV[2], '3/1h')"
    assert [client.call("EVAL", script, 1, "k", 2, NOW)[:3] for _ in range(2)] == [[1, 3, 1], [0, 3, 1]]
    assert client.call("EVAL", "return redis.pcall('SLUICE.CHECK', KEYS[1], 1, 'x').err", 1, "k").startswith(b"ERR ")
    peek = "return redis.call('SLUICE.PEEK', KEYS[1], 1, 'AT', ARGV[1], '3/1h')"
    assert client.call("EVAL_RO", peek, 1, "k", NOW)[2] == 1
    assert "Write commands are not allowed" in refusal(client, "EVAL_RO", script, 1, "k", 1, NOW)


def test_databases_are_apart(client):
    client.call("SLUICE.CHECK", "k", 2, "AT", NOW, "2/1h")
    client.call("SELECT", 3)
    assert client.call("SLUICE.CHECK", "k", 1, "AT", NOW, "2/1h")[:3] == [1, 2, 1]
    client.call("SWAPDB", 0, 3)
    assert client.call("SLUICE.PEEK", "k", 1, "AT", NOW, "2/1h")[:3] == [0, 2, 0]
    client.call("SELECT", 0)


# ---- expiry ----------------------------------------------------------------------------------------------------------

# How much longer than it has to a key lives that was charged twice: a sixteenth of the window, but for windows.
EXPIRING = {"fixed-window 3/100ms": 0, "3/100ms": 0, "sliding-log 3/100ms": 6, "token-bucket 3/90ms burst 5": 5,
            "leaky-bucket 3/90ms queue 5": 5, "sliding-buckets 3/100ms precision 10ms": 16,
            "sliding-buckets 3/100ms precision 10ms edge drop": 16}


@pytest.fixture
def timed(redises):
    """A server whose clocks both stand until they are moved, and which takes no time from its callers."""
    clock = Clock()
    clock.stand_all(MANY_YEARS_MS)
    one = redises(module=(), clock=clock)
    one.client = one.resp()
    yield one
    one.client.close()
    one.end()
    clock.close()


def test_a_key_is_gone_when_it_matters_no_more(timed):
    """Not a millisecond before the whole quota is back, and soon after."""
    client, at = timed.client, MANY_YEARS_MS
    for limit, spare in EXPIRING.items():
        for offset in (0, 37, 91):
            start = at = at - at % 1000 + 1000 + offset
            timed.clock.stand_all(start)
            client.call("SLUICE.CHECK", "k", 1, limit)
            timed.clock.stand_all(start + 3)
            reset = client.call("SLUICE.CHECK", "k", 2, limit)[4]
            timed.clock.stand_all(start + 4)
            client.call("SLUICE.CHECK", "k", 9, limit)  # denied: keeps nothing longer
            assert reset > 0
            timed.clock.stand_all(start + 3 + reset - 1)
            assert client.call("EXISTS", "k") == 1 and client.call("SLUICE.PEEK", "k", 1, limit)[4] == 1
            timed.clock.stand_all(start + 3 + reset)
            assert client.call("SLUICE.PEEK", "k", 1, limit)[4] == 0
            timed.clock.stand_all(start + 3 + reset + spare + 2)
            assert client.call("EXISTS", "k") == 0, (limit, offset)


@pytest.mark.parametrize("limit", ["sliding-log 5000/16s", "token-bucket 1000/16s", "leaky-bucket 1000/16s",
                                   "sliding-buckets 5000/16s precision 100ms", "5000/16s"])
def test_an_expiry_moves_by_a_sixteenth_of_the_window_and_is_never_early(timed, limit):
    client, at, expiries = timed.client, MANY_YEARS_MS - MANY_YEARS_MS % 32_000, set()
    for i in range(320):
        timed.clock.stand_all(at + 50 * i)
        reset = client.call("SLUICE.CHECK", "moves", 5, limit)[4]
        left = client.call("PTTL", "moves")
        assert reset <= left <= reset + 1000 + 100 + 2 or limit == "5000/16s", (i, reset, left)
        assert left >= reset
        expiries.add(at + 50 * i + left)
    assert len(expiries) <= 3 + (max(expiries) - min(expiries)) / 1000, sorted(expiries)


@pytest.mark.parametrize("algorithm", ["token-bucket", "leaky-bucket"])
def test_a_changed_rate_hangs_on_no_expiry(timed, algorithm):
    """Contract 4.7: what is owed at a low rate is owed longer than the key had to live at a high one, and the other way
    round; whatever the last charge was, the key is there until its counter is full."""
    client, at = timed.client, MANY_YEARS_MS
    option = "burst" if algorithm == "token-bucket" else "queue"
    for i in range(400):
        rate = (1, 1000, 10, 100_000)[i * 7 // 3 % 4]
        at += (0, 3, 700, 61_000)[i % 4]
        timed.clock.stand_all(at)
        words = ["SLUICE.CHECK", "rated", (1, 40, 0)[i % 3], "NAME", "n", f"{algorithm} {rate}/1s {option} 1000"]
        client.call(*words)
        reset = client.call("SLUICE.PEEK", *words[1:])[4]
        assert client.call("PTTL", "rated") >= reset or reset == 0, (i, rate, reset)
        if reset > 1:
            timed.clock.stand_all(at + reset - 1)
            assert client.call("SLUICE.PEEK", *words[1:])[4] == 1, (i, rate)


def test_a_key_lives_as_long_as_its_longest(timed):
    client = timed.client
    client.call("SLUICE.CHECK", "k", 1, "sliding-log 3/10s", "sliding-log 9/20ms", "sliding-log 9/1s")
    timed.clock.stand_all(MANY_YEARS_MS + 1)
    client.call("SLUICE.CHECK", "k", 1, "sliding-log 9/20ms")
    assert 9_999 <= client.call("PTTL", "k") <= 10_001
    client.call("SLUICE.HOLD", "k", 1, "a", 30_000, "sliding-log 9/20ms")
    assert 30_000 <= client.call("PTTL", "k") <= 30_002
    client.call("SLUICE.LEASE", "k", "b", 30_000, 0, 2, "sliding-log 9/1h")  # charged at its end
    assert 3_630_000 <= client.call("PTTL", "k") <= 3_630_002


def test_instants_of_callers_keep_keys_longer(client):
    """Their clock need not go as the wall clock does: an hour more."""
    client.call("SLUICE.CHECK", "k", 1, "AT", NOW, "sliding-log 3/10s")
    assert 3_610_000 <= client.call("PTTL", "k") <= 3_610_002


def test_others_set_the_expiry(client, host):
    try:
        client.call("SLUICE.CHECK", "k", 2, "AT", NOW, "sliding-log 2/1h")
        client.call("PERSIST", "k")
        assert client.call("SLUICE.CHECK", "k", 1, "AT", NOW + 1, "sliding-log 2/1h")[0] == 0
        host.clock.stand(MANY_YEARS_MS + 9_000_000)
        assert client.call("EXISTS", "k") == 1
        assert client.call("SLUICE.CHECK", "k", 1, "AT", NOW + 3_600_000, "sliding-log 2/1h")[:3] == [1, 2, 1]
        assert client.call("PTTL", "k") >= 3_600_000
        client.call("PEXPIRE", "k", 10)
        host.clock.stand(MANY_YEARS_MS + 9_000_011)
        assert client.call("SLUICE.PEEK", "k", 1, "AT", NOW + 3_600_001, "sliding-log 2/1h")[:3] == [1, 2, 2]
    finally:
        host.clock.stand(MANY_YEARS_MS)


# ---- introspection, clients ------------------------------------------------------------------------------------------

def test_what_redis_tells_of_our_keys(client):
    client.call("SLUICE.CHECK", "k", 1, "AT", NOW, "10/1h")
    small = client.call("MEMORY", "USAGE", "k")
    client.call("SLUICE.CHECK", "big", 1, "AT", NOW, *(f"sliding-buckets 9/{n}d precision 1h" for n in range(20, 36)))
    assert 0 <= small < client.call("MEMORY", "USAGE", "big")  # Valkey does not count a key's name
    kind = client.call("TYPE", "k")
    assert client.call("OBJECT", "ENCODING", "k") == b"raw" and client.call("OBJECT", "REFCOUNT", "k") == 1
    assert client.call("SCAN", 0, "TYPE", kind)[1] != []
    assert b"sluice" in repr(client.call("MODULE", "LIST")).encode()
    assert client.call("DEBUG", "DIGEST-VALUE", "k") != client.call("DEBUG", "DIGEST-VALUE", "big")
    client.call("CONFIG", "SET", "lazyfree-lazy-user-del", "yes")
    client.call("DEL", "k", "big")
    wait_until(lambda: client.call("MEMORY", "DOCTOR") is not None, "no answer")
    client.call("CONFIG", "SET", "lazyfree-lazy-user-del", "no")


def run(*command, stdin=b""):
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_redis_cli(host, client):
    for protocol in ([], ["-3"]):
        status, out, _ = run("redis-cli", *protocol, "-p", str(host.port), "SLUICE.CHECK", f"cli{protocol}", "1",
                             "2/3660d")
        assert status == 0 and out.split()[:3] == ["1", "2", "1"] and len(out.split()) == 7
    status, out, _ = run("redis-cli", "-p", str(host.port), "SLUICE.CHECK", "k", "1", "2/3660x")
    assert out.startswith("ERR ")
    many = b"".join(encode("SLUICE.CHECK", f"pipe:{i % 7}", 1, "5/3660d") for i in range(2000))
    status, out, err = run("redis-cli", "-p", str(host.port), "--pipe", stdin=many)
    assert status == 0 and "errors: 0, replies: 2000" in out, (out, err)
    status, out, err = run("redis-cli", "-p", str(host.port), "--bigkeys")
    assert status == 0, err


def test_redis_py(host, client):
    with redis_py.Redis(port=host.port) as one:
        pipeline = one.pipeline()
        for _ in range(200):
            pipeline.execute_command("SLUICE.CHECK", "redis-py", 1, "fixed-window 150/3660d")
        assert [reply[0] for reply in pipeline.execute()] == [1] * 150 + [0] * 50
        with pytest.raises(redis_py.ResponseError):
            one.execute_command("SLUICE.CHECK", "redis-py")
        one.set("text", "x")
        with pytest.raises(redis_py.ResponseError, match="WRONGTYPE"):
            one.execute_command("SLUICE.CHECK", "text", 1, "1/1s")
        assert one.command_getkeys("SLUICE.CHECK", "a", 1, "1/1s", "KEY", "b", "1/1s") == ["a", "b"]


@pytest.mark.parametrize("name", ["ioredis", "ioredis-5", "iovalkey", "redis", "redis-5:3"])
def test_npm_client(host, client, node_clients, name):
    folder, node = node_clients
    status, out, err = run(node, os.path.join(folder, "run.mjs"), name, str(host.port))
    assert status == 0, err
    seen = json.loads(out)
    assert [reply[:3] for reply in seen["checks"]] == [[1, 2, 1], [1, 2, 0], [0, 2, 0]]
    assert seen["peek"][:3] == [0, 3, 1] and seen["refund"][:4] == [1, 2, 1, 0] and seen["reset"] == 1
    assert seen["error"].startswith("ERR ") and "column" in seen["error"]
    assert seen["throttle"] == [0, 16, 15, -1, 2] and seen["explain"].startswith("ERR unknown command")
    assert seen["pipelined"] == [1] * 30 + [0] * 20 == seen["sideBySide"]
