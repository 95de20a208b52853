"""Windows that are spread: a key has the same phase at every door, in the module and behind a front with a prefix,
after a restart and on a replica; and a herd of clients that wait as they are told does not come back at once."""
import base64
import re
import subprocess


from harness import DEADLINE_S, RespError, encode, wait_until
from redis_world import redises, replicate  # noqa: F401
from test_fleet import decides

AT = 1728000003217
LIMITS = ("fixed-window 3/10s spread", "3/10s spread", "fixed-window 3/1h spread")
KEYS = [f"user:{i}" for i in range(12)] + ["", "k" * 1000]
FRONT = """
client-time: true
threads: 1
store: {{redis: "127.0.0.1:{port}", budget: 10s, prefix: "p:{{x}}:", via: {via}}}
limits:
  - {{name: search, key: user, limit: fixed-window 3/3660d spread, reserve: {reserve}}}
"""


def tell(r, *words):
    try:
        return r.call(*words)
    except RespError as error:
        return str(error)


def story(ask):
    """What is asked of each key, and answered: charges, denials, their ends, refunds, resets."""
    for limit in LIMITS:
        for key in KEYS:
            yield [ask("CHECK", key, 1, AT + i, limit) for i in range(3)]
            denied = ask("CHECK", key, 1, AT + 7, limit)
            assert denied[0] == 0 and denied[3] > 0
            yield denied
            yield [ask("PEEK", key, 1, AT + 7 + denied[3] + more, limit) for more in (-1, 0)]
            yield ask("REFUND", key, 2, AT + 8, limit), ask("CHECK", key, 2, AT + 9, limit)
            yield ask("CHECK", key, 1, AT + 10 + denied[3], limit, "100/1d")


def over_resp(r):
    return lambda verb, key, cost, at, *limits: r.call("SLUICE." + verb, key, cost, "AT", at, *limits)


def over_http(http):
    def ask(verb, key, cost, at, *limits):
        body = {"key": key, "cost": cost, "at": at, "limits": list(limits), "peek": verb == "PEEK"}
        if verb == "REFUND":
            del body["peek"]
        got = http.post("/v1/refund" if verb == "REFUND" else "/v1/check", body)[2]
        names = [one["name"] for one in got["limits"]]
        return [int(got["allowed"]), *(got[x] for x in ("quota", "remaining", "retry_after_ms", "reset_after_ms",
                                                        "delay_ms")), names.index(got["limit"])]
    return ask


def test_every_door_gives_a_key_the_same_phase(server, redises):  # noqa: F811
    redis = redises()
    front = server(policy=FRONT.format(port=redis.port, via="module", reserve="false"))
    wait_until(lambda: decides(front), "no node answers")
    here = server(policy="client-time: true\n")
    with here.resp() as r:
        said = list(story(over_resp(r)))
        for limit in LIMITS:
            for key in KEYS:
                assert r.call("SLUICE.RESET", key, limit, "100/1d") >= 1
    assert len({denied[3] for denied in said[1:5 * len(KEYS):5]}) > len(KEYS) // 2  # each its own
    with here.http() as http:
        assert list(story(over_http(http))) == said
    with redis.resp() as r:
        assert list(story(over_resp(r))) == said
    with front.resp() as r:
        assert list(story(over_resp(r))) == said


def phases_of(ask):
    return [ask("CHECK", key, 4, AT, "fixed-window 3/1h spread")[3] == -1
            and ask("CHECK", key, 3, AT, "fixed-window 3/1h spread")[4] for key in KEYS]


def test_the_same_after_a_restart_and_on_a_replica(server, redises, tmp_path):  # noqa: F811
    policy = f"client-time: true\nstore: {{file: {tmp_path}/store, memory: 4MiB}}\n"
    one = server(policy=policy)
    with one.resp() as r:
        before = phases_of(over_resp(r))
    one.stop()
    with server(policy=policy).resp() as r:
        ask = over_resp(r)
        assert [ask("CHECK", key, 1, AT, "fixed-window 3/1h spread")[3] for key in KEYS] == before  # denied until then
    master, replica = redises(options=["--save", "1", "1"]), redises()
    with master.resp() as r:
        assert phases_of(over_resp(r)) == before
    replicate(master, replica)
    with replica.resp() as r:
        assert [over_resp(r)("PEEK", key, 1, AT, "fixed-window 3/1h spread")[3] for key in KEYS] == before
    master.restart()
    with master.resp() as r:
        assert [over_resp(r)("CHECK", key, 1, AT, "fixed-window 3/1h spread")[3] for key in KEYS] == before


def test_a_policy_s_limit_at_its_doors(server, redises):  # noqa: F811
    """By name, at ADMIT, admit, a proxy's door and a front: the window of a user ends at one instant for all."""
    redis = redises()
    front = server(policy="attributes: {user: header x-user}\n" +
                   FRONT.format(port=redis.port, via="module", reserve="false"))
    reserving = server(policy=FRONT.format(port=redis.port, via="module", reserve="{ttl: 1h}"))
    here = server(policy="client-time: true\nattributes: {user: header x-user}\nlimits:\n"
                         "  - {name: search, key: user, limit: fixed-window 3/3660d spread}\n")
    wait_until(lambda: decides(front), "no node answers")
    ends = []

    def now(r):
        seconds, microseconds = (int(x) for x in r.call("TIME"))
        return seconds + microseconds / 1e6

    for one in (here, front):
        with one.resp() as r, one.http() as http:
            assert r.call("SLUICE.ADMIT", 1, "user", "ann")[:3] == [1, 3, 2]
            assert http.post("/v1/admit", {"attributes": {"user": "ann"}})[2]["remaining"] == 1
            status, headers, _ = http.ask("GET", "/v1/auth/forward", headers={"X-User": "ann"})
            assert status == 200 and 'q=3;w=316224000' in dict(headers)["RateLimit-Policy"]
            before, figures, after = now(r), r.call("SLUICE.EXPLAIN", 1, "user", "ann")[0], now(r)
            assert figures[1] == b"fixed-window 3/3660d spread" and figures[3] == 0
            ends.append((before + figures[7] / 1000, after + figures[7] / 1000))
    assert max(first for first, _ in ends) <= min(last for _, last in ends) + 1  # clocks of a host agree so well
    wait_until(lambda: decides(reserving), "no node answers")
    with reserving.resp() as r:  # what is reserved is committed in the window that it was charged in
        admitted = r.call("SLUICE.ADMIT", 2, "user", "bob")
        assert admitted[:3] == [1, 3, 1]
        assert r.call("SLUICE.COMMIT", "user=bob", admitted[8], 1)[:3] == [1, 3, 2]


def test_a_script_has_no_phases(sluice_bin, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(FRONT.format(port=1, via="script", reserve="false"))
    done = subprocess.run([sluice_bin, "lint", str(path)], capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 1
    assert "6:38: error: spread needs Sluice's module on the nodes: via: script can't do it" in done.stdout


def worst_of_herd(server, limit, clients=10000):
    """All are denied at one instant, and come back when they were told: the fullest 100 ms, and the mean."""
    with server.resp() as r:
        waits = []
        for at in range(0, clients, 500):
            r.send(b"".join(encode("SLUICE.CHECK", f"c{i}", 1, "AT", AT, limit) * 2 for i in range(at, at + 500)))
            replies = [r.read() for _ in range(1000)]
            assert all(reply[0] == 1 for reply in replies[::2]) and all(reply[0] == 0 for reply in replies[1::2])
            waits += [reply[3] for reply in replies[1::2]]
        slots = [0] * (max(waits) // 100 + 1)
        for wait in waits:
            slots[wait // 100] += 1
    return max(slots), clients / 100


def test_a_herd_does_not_come_back_at_once(server):
    one = server(policy="client-time: true\n")
    assert worst_of_herd(one, "fixed-window 1/10s")[0] == 10000
    for limit in ("fixed-window 1/10s spread", "1/10s spread"):
        worst, mean = worst_of_herd(one, limit)
        assert worst <= 3 * mean, (limit, worst, mean)


def test_metrics_tell_quota_and_window(server):
    one = server(policy="limits:\n  - {name: search, key: user, limit: fixed-window 3/1h spread}\n"
                        "  - {name: burst, key: user, limit: token-bucket 10/1s burst 50}\n"
                        "  - {name: all, key: user, limit: unlimited}\n")
    text = one.http().ask("GET", "/metrics")[2].decode()
    for line in ('sluice_limit_quota{policy="search"} 3', 'sluice_limit_window_seconds{policy="search"} 3600',
                 'sluice_limit_quota{policy="burst"} 50', 'sluice_limit_window_seconds{policy="burst"} 1'):
        assert re.search(f"^{re.escape(line)}(\\.0+)?$", text, re.M), line
    assert 'policy="all"' not in "".join(x for x in text.splitlines() if x.startswith("sluice_limit_"))


def limit_of(ticket):
    """The limit that a ticket's only item says, at its end."""
    packed = base64.urlsafe_b64decode(ticket.split(b".")[1] + b"==")
    return packed.partition(b"fixed-window ")[2].decode()


def test_a_limit_is_shown_without_the_phase_of_its_key(server, redises):  # noqa: F811
    """INSPECT and tickets say the limit as the caller did; a phase that the caller says is shown."""
    redis, here = redises(), server()
    for limit in ("3/10s spread", "3/10s spread 77"):
        for one in (here, redis):
            with one.resp() as r:
                assert r.call("SLUICE.CHECK", "user:1", 1, f"fixed-window {limit}")[0] == 1
                told = r.call("SLUICE.INSPECT", "user:1", f"fixed-window {limit}")[0]
                assert told[told.index(b"limit") + 1].decode() == f"fixed-window {limit}"
                ticket = r.call("SLUICE.RESERVE", "user:1", 1, 60000, f"fixed-window {limit}")[7]
                assert limit_of(ticket) == limit
                assert r.call("SLUICE.COMMIT", "user:1", ticket, 2)[:3] == [1, 3, 0], "the same counter"
