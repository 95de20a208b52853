"""Keys and members above 1,024 bytes (contract 4.10): no error anywhere, and one counter wherever the key comes in. In
the module and the script a key that is given directly is the database's own, and counts as it is.
"""

import json
import subprocess

import pytest

from harness import encode
from redis_world import Redis

LIMIT = "fixed-window 100/365d"
KEY = "eyJhbGciOiJIUzI1NiJ9." + "x" * 1500
TWIN = KEY[:-1] + "y"
SIZES = (1024, 1025, 1500, 60000)
POLICY = """
store: {file: %s}
client-time: true
limits: [{name: per-user, key: user, limit: 50/365d}]
"""


def run(binary, *args, stdin=None):
    done = subprocess.run([binary, *args], capture_output=True, text=True, input=stdin)
    assert done.returncode in (0, 1), done
    return done.stdout


@pytest.fixture
def one(server, tmp_path):
    return server(POLICY % (tmp_path / "store"))


def left(r, key=KEY, limit=LIMIT):
    return r.call("SLUICE.PEEK", key, 0, limit)[2]


def test_every_way_in_meets_one_counter(one, sluice_bin, tmp_path):
    store, body = str(tmp_path / "store"), {"key": KEY, "limits": [LIMIT]}
    with one.resp() as r, one.http() as h:
        assert r.call("SLUICE.CHECK", KEY, 1, LIMIT)[2] == 99
        assert r.call("SLUICE.CHECK", "k", 1, LIMIT, "KEY", KEY, LIMIT)[2] == 98
        assert h.post("/v1/check", body)[2]["remaining"] == 97
        assert h.post("/v1/check", {"limits": [{"key": KEY, "limit": LIMIT}]})[2]["remaining"] == 96
        run(sluice_bin, "check", KEY, LIMIT, "--store", store)  # the library, beside the server
        assert left(r) == 95
        run(sluice_bin, "check", "k", LIMIT, "KEY", KEY, LIMIT, "--server", f"127.0.0.1:{one.ports('resp')[0]}")
        assert left(r) == 94 and left(r, TWIN) == 100 and left(r, KEY[:1024]) == 100
        for way in (lambda: r.call("SLUICE.REFUND", KEY, 1, LIMIT), lambda: h.post("/v1/refund", body)):
            way()
        assert left(r) == 96
        assert h.post("/v1/reset", body)[2] == {"reset": 1} and left(r) == 100


def test_all_lengths_and_all_commands(one):
    with one.resp() as r:
        for n, size in enumerate(SIZES):
            key, twin = f"{n}" * (size - 1) + "a", f"{n}" * (size - 1) + "b"
            for _ in range(3):
                r.send(b"".join(encode("SLUICE.CHECK", one_of, 1, LIMIT) for one_of in (key, twin, "short", key)))
                for _ in range(4):
                    r.read()
            assert (left(r, key), left(r, twin)) == (94, 97), size
            assert r.call("CL.THROTTLE", key, 4, 5, 60)[2] == 4 and r.call("CL.THROTTLE", key, 4, 5, 60)[2] == 3
            assert r.call("SLUICE.ACQUIRE", key, 1, "ID", "a", "concurrency 1 lease 1h")[0] == 1
            assert len(r.call("SLUICE.HOLDERS", key, "concurrency 1 lease 1h")) == 1
            assert r.call("SLUICE.RENEW", key, "a", "concurrency 1 lease 1h") == 1
            assert r.call("SLUICE.RELEASE", key, "a", "concurrency 1 lease 1h") == 1
            ticket = r.call("SLUICE.RESERVE", key, 10, 60000, LIMIT, "KEY", twin, LIMIT)[-1]
            assert r.call("SLUICE.COMMIT", key, ticket, 1)[0] == 1
            assert (left(r, key), left(r, twin)) == (93, 96), size
            for member in (key, key, twin):
                r.call("SLUICE.CHECK", f"d{n}", 1, "MEMBER", member, "distinct 5/1h")
            assert left(r, f"d{n}", "distinct 5/1h") == 3
            assert r.call("SLUICE.INSPECT", key, LIMIT) != r.call("SLUICE.INSPECT", twin, LIMIT)


def test_sixteen_long_keys_and_members_in_one_request(one):
    keys = [chr(97 + n) * 2000 for n in range(16)]
    words = [word for key in keys for word in ("KEY", key, "MEMBER", key, "distinct 2/365d", )][2:]
    with one.resp() as r:
        for _ in range(300):
            r.send(encode("SLUICE.CHECK", keys[0], 1, *words))
        assert [r.read()[2] for _ in range(300)] == [1] * 300
        for key in keys:
            assert left(r, key, "distinct 2/365d") == 1
        others = [word for key in keys[1:] for word in ("KEY", key, LIMIT)]
        ticket = r.call("SLUICE.RESERVE", keys[0], 1, 60000, LIMIT, *others)[-1]
        assert r.call("SLUICE.COMMIT", keys[0], ticket, 5)[0] == 1
        assert [left(r, key) for key in keys] == [95] * 16
        with one.http() as h:
            limits = [{"key": key, "limit": LIMIT} for key in keys]
            assert h.post("/v1/check", {"limits": limits})[2]["remaining"] == 94
            held = h.post("/v1/reserve", {"limits": limits, "ttl_ms": 60000})[2]["id"]
            assert h.post("/v1/commit", {"id": held, "actual": 2})[0] == 200
        assert [left(r, key) for key in keys] == [92] * 16


def test_what_is_watched_shows_the_folded_key(one):
    with one.resp() as r, one.resp() as tail:
        assert tail.call("SLUICE.TAIL", "KEY", KEY) == b"OK"
        assert r.call("SLUICE.CHECK", TWIN, 200, LIMIT)[0] == 0
        assert r.call("SLUICE.CHECK", KEY, 200, LIMIT)[0] == 0
        shown = json.loads(tail.read()[1])["key"]
        assert len(shown) == 1024 and shown[:960] == KEY[:959] + "~"
        assert r.call("SLUICE.CHECK", shown, 100, LIMIT)[2] == 0, "what is shown can be asked for"
        assert left(r) == 0


def test_overrides_of_long_keys(one):
    with one.resp() as r, one.http() as h:
        assert r.call("SLUICE.OVERRIDE", "SET", LIMIT, KEY, "fixed-window 7/365d") == b"OK"
        assert r.call("SLUICE.CHECK", KEY, 1, LIMIT)[1:3] == [7, 6] and left(r, TWIN) == 100
        assert h.ask("GET", f"/v1/overrides/{LIMIT.replace(' ', '%20').replace('/', '%2F')}/{KEY}")[0] == 200
        cursor, listed = r.call("SLUICE.OVERRIDE", "LIST")
        while int(cursor) != 0:  # a page before the end may be empty
            cursor, page = r.call("SLUICE.OVERRIDE", "LIST", cursor)
            listed += page
        shown = listed[0][1]
        assert len(shown) == 1024 and r.call("SLUICE.OVERRIDE", "GET", LIMIT, shown)[0] == b"fixed-window 7/365d"
        assert h.ask("DELETE", f"/v1/overrides/{LIMIT.replace(' ', '%20').replace('/', '%2F')}/{KEY}")[2] == {
            "deleted": 1}
        assert r.call("SLUICE.OVERRIDE", "GET", LIMIT, KEY) is None


def test_replay_counts_long_keys(sluice_bin, tmp_path):
    log = "".join(f"{1000 + n} {key}\n" for n, key in enumerate([KEY, TWIN, KEY, KEY]))
    for limits in (["--limit", "2/1h"], ["-c", str(tmp_path / "policy.yaml")]):
        (tmp_path / "policy.yaml").write_text("limits: [{name: a, key: key, limit: 2/1h}]\n")
        told = run(sluice_bin, "replay", "--format", "ops", *limits, "--decisions", "-", stdin=log)
        assert [line.split()[:2] for line in told.splitlines()] == [["1", "1"], ["1", "1"], ["1", "0"], ["0", "0"]]


# ---- where a key is the database's own -------------------------------------------------------------------------------

@pytest.fixture
def redis():
    one = Redis(module=("client-time", "yes"))
    yield one
    one.stop()


def test_the_module_counts_a_key_as_it_is(redis):
    with redis.resp() as r:
        for size in SIZES:
            key, twin = "m" * (size - 1) + "a", "m" * (size - 1) + "b"
            assert [r.call("SLUICE.CHECK", one, 1, LIMIT)[2] for one in (key, twin, key)] == [99, 99, 98]
            assert r.call("EXISTS", key) == 1
            assert r.call("SLUICE.CHECK", "k{x}", 1, LIMIT, "KEY", key, LIMIT)[0] == 1
            ticket = r.call("SLUICE.RESERVE", key, 10, 60000, LIMIT)[-1]
            assert r.call("SLUICE.COMMIT", key, ticket, 1)[0] == 1 and left(r, key) == 96
            assert r.call("SLUICE.ACQUIRE", key, 1, "ID", "a", "concurrency 1 lease 1h")[0] == 1
            assert r.call("SLUICE.RELEASE", key, "a", "concurrency 1 lease 1h") == 1
            assert r.call("SLUICE.OVERRIDE", "SET", LIMIT, key, "fixed-window 7/365d") == b"OK"
            assert r.call("SLUICE.OVERRIDE", "GET", LIMIT, key)[0] == b"fixed-window 7/365d"
            assert len(r.call("SLUICE.INSPECT", key, LIMIT)) == 1 and r.call("CL.THROTTLE", key, 4, 5, 60)[2] == 4
            for member in (key, key, twin):
                r.call("SLUICE.CHECK", f"d{size}", 1, "MEMBER", member, "distinct 5/1h")
            assert left(r, f"d{size}", "distinct 5/1h") == 3


@pytest.mark.parametrize("size", [1025, 70000])
def test_no_ticket_of_the_module_says_another_long_key(redis, size):
    """What would be held there denies; where the command's own key is the long one, its ticket need not say it."""
    other, own = "o" * size, "w" * size
    with redis.resp() as r:
        answer = r.call("SLUICE.RESERVE", "k", 5, 60000, LIMIT, "KEY", other, LIMIT)
        assert answer[:4] == [0, 100, 0, -1] and r.call("EXISTS", other) == 0 and left(r, "k") == 100
        answer = r.call("SLUICE.RESERVE", own, 5, 60000, LIMIT, "KEY", "k", LIMIT, "KEY", own, "sliding-log 9/1h")
        assert answer[0] == 1 and r.call("SLUICE.COMMIT", own, answer[-1], 1)[0] == 1
        assert [left(r, own), left(r, "k"), left(r, own, "sliding-log 9/1h")] == [99, 99, 8]
        assert r.call("SLUICE.RESERVE", "k", 5, 60000, LIMIT, "KEY", other, "unlimited")[0] == 1


def test_members_count_alike_at_a_server_and_in_the_module(redis, server):
    front = server(f'store: {{redis: ["127.0.0.1:{redis.port}"], prefix: "", slices: false, budget: 10s}}\n'
                   'limits: []\n')
    with redis.resp() as there, front.resp() as here:
        for one in (here, there, here):
            assert one.call("SLUICE.CHECK", "d", 1, "MEMBER", KEY, "distinct 5/1h")[2] == 4
        assert there.call("SLUICE.CHECK", "d", 1, "MEMBER", TWIN, "distinct 5/1h")[2] == 3
        assert here.call("SLUICE.CHECK", KEY, 1, LIMIT)[2] == 99
        folded = there.call("KEYS", "eyJ*")
        assert [len(key) for key in folded] == [1024], "a server folds before it sends"
        assert left(there, folded[0]) == 99 and left(there) == 100


def test_the_command_line_asks_redis_as_a_server_would(redis, server, sluice_bin):
    front = server(f'store: {{redis: ["127.0.0.1:{redis.port}"], prefix: "p:", slices: false, budget: 10s}}\n'
                   'limits: []\n')
    run(sluice_bin, "check", KEY, LIMIT, "--store", f"redis://127.0.0.1:{redis.port}/p:")
    with front.resp() as r:
        assert left(r) == 99 and left(r, TWIN) == 100
