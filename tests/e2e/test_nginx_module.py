"""The module in a real nginx: what it denies, tells and keeps; that command line and server see the same counters; and
what configuration, clients and dying workers can do to it."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import DEADLINE_S, ROOT, Server, in_one_window, same_but_for_time, wait_until
from nginx import Nginx, levels
from test_stopped import Neighbour, keys_elsewhere, neighbour_bin  # noqa: F401 - a fixture

NAMES = iter(range(1 << 30))


class Place:
    """A store of a test's own, and nginx over it."""

    def __init__(self, folder, sluice_bin):
        self.folder, self.bin, self.started = folder, sluice_bin, []
        self.file = os.path.join(str(folder), "counters")
        self.store = f"sluice_store file:{self.file} memory=2m;"

    def conf(self, server, http_block=""):
        return f"{self.store}\n{http_block}\nserver {{ listen 127.0.0.1:{{port}};\n{server}\n}}\n"

    def nginx(self, server, http_block="", store=None, **options):
        if store is not None:
            self.store = store
        one = Nginx(os.path.join(str(self.folder), "nginx%d" % next(NAMES)), self.conf(server, http_block), **options)
        self.started.append(one)
        return one

    def start(self, *words, **options):
        """Once its workers have made the store, which another program would make larger: an empty file is none yet."""
        nginx = self.nginx(*words, **options).start()
        wait_until(lambda: (os.path.exists(self.file) and os.path.getsize(self.file) != 0) or
                   "can't be opened" in nginx.said(), "no store")
        return nginx

    def policy(self, text):
        path = os.path.join(str(self.folder), "policy%d.yaml" % next(NAMES))
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def cli(self, *words):
        return subprocess.run([self.bin, *words, "--store", self.file], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)


@pytest.fixture
def place(tmp_path, sluice_bin):
    one = Place(tmp_path, sluice_bin)
    yield one
    for nginx in one.started:
        nginx.stop()


def limited(*limits, more=""):
    return "location / { %s %s empty_gif; }" % (" ".join("sluice_limit %s;" % limit for limit in limits), more)


# ---- one counter everywhere ----

def test_nginx_command_line_and_server_count_in_one_store(place, sluice_bin):
    nginx = place.start(limited("sliding-log 4/1h key=user:$arg_u"))
    server = Server(sluice_bin, f"store: {{file: {place.file}}}\nlimits: []\n")
    try:
        assert nginx.ask("/?u=1")[1]["ratelimit"] == '"sliding-log 4/1h";r=3;t=3600'
        said = place.cli("check", "user:1", "sliding-log 4/1h")
        assert said.returncode == 0 and re.search(r"remaining +2 of 4", said.stdout), said.stdout
        with server.http() as http:
            status, _, body = http.post("/v1/check", {"key": "user:1", "limits": ["sliding-log 4/1h"]})
            assert (status, body["remaining"]) == (200, 1)
        assert nginx.status("/?u=1") == 200 and nginx.status("/?u=1") == 429
        with server.resp() as resp:
            assert resp.call("SLUICE.CHECK", "user:1", 1, "sliding-log 4/1h")[0] == 0
        assert place.cli("check", "user:1", "sliding-log 4/1h").returncode == 1
        said = place.cli("inspect", "user:1", "sliding-log 4/1h")
        assert said.returncode == 0 and "4" in said.stdout
        assert nginx.status("/?u=2") == 200
        with server.resp() as resp:
            assert resp.call("SLUICE.RESET", "user:1", "sliding-log 4/1h") == 1
        assert nginx.status("/?u=1") == 200
    finally:
        server.stop()


POLICY = """
attributes: {user: header x-user-id}
limits:
  - {name: per-ip, when: {path: /api/*}, key: ip, limit: sliding-log 3/1h}
  - {name: login, when: {method: POST, path: /login, host: shop.example}, key: user | ip, limit: sliding-log 1/1h}
  - {name: never, when: {path: /never}, key: [], limit: sliding-log 0/1h}
  - {name: seen, when: {path: /seen}, key: ip, limit: sliding-log 1/1h, observe: true}
"""


def same_told(mine, theirs, elapsed_s):
    """Headers of the decision, and the body of a denial, to the byte but for the time that has passed."""
    for name in ("ratelimit", "ratelimit-policy", "retry-after", "cache-control"):
        if theirs[0] != 200 or name != "cache-control":  # the server's own answers are never to be kept
            assert (name in mine[1]) == (name in theirs[1]), (name, mine, theirs)
            assert same_but_for_time(mine[1].get(name, ""), theirs[1].get(name, ""), elapsed_s), (name, mine, theirs)
    assert mine[0] == theirs[0]
    if theirs[0] != 200:
        assert mine[1]["content-type"] == theirs[1]["content-type"] == "application/problem+json"
        assert same_but_for_time(mine[2].decode(), theirs[2].decode(), elapsed_s), (mine, theirs)
        told_in_one(mine[1], mine[2])


def told_in_one(headers, body):
    """Within one answer nothing has passed: its seconds are its milliseconds, rounded up."""
    waits = [int(wait) for wait in re.findall(r"retry in (\d+) ms", body.decode())]
    assert [int(headers["retry-after"])] == [-(-wait // 1000) for wait in waits] if waits \
        else "retry-after" not in headers, (headers, body)


def ask_server(server, path, method="GET", user=None, host="shop.example", address="192.0.2.1"):
    with server.http() as http:
        headers = {"X-Original-Method": method, "X-Original-URI": path, "X-Forwarded-Host": host,
                   "X-Forwarded-For": address, **({"X-User-Id": user} if user else {})}
        http.connection.request("GET", "/v1/auth/nginx?status=429", headers=headers)
        response = http.connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()


def test_a_policy_is_told_as_the_servers_door_tells_it(place, sluice_bin):
    """The same requests to both, each for an address of its own; then the counters are the same ones as well."""
    policy = place.policy(POLICY)
    nginx = place.start("location / { sluice_policy %s; set_real_ip_from 127.0.0.1; real_ip_header X-Real; empty_gif; }"
                        % policy)
    server = Server(sluice_bin, f"store: {{file: {place.file}}}\n" + POLICY)
    longest = 0
    try:
        for path, method, user in [("/api/x", "GET", None)] * 4 + [("/api/../api//x?q=1", "GET", None),
                                                                   ("/login", "POST", "ann"), ("/login", "POST", "ann"),
                                                                   ("/login", "GET", "ann"), ("/never", "GET", None),
                                                                   ("/seen", "GET", None), ("/seen", "GET", None),
                                                                   ("/other", "GET", None)]:
            headers = [("Host", "shop.example"), ("X-Real", "192.0.2.1"), *([("X-User-Id", user)] if user else [])]
            other = {"address": "192.0.2.2", "user": "bob" if user else None}
            asked = time.monotonic()
            mine, theirs = nginx.ask(path, method=method, headers=headers), ask_server(server, path, method, **other)
            longest = max(longest, time.monotonic() - asked)
            if mine[0] == 405:  # empty_gif knows no POST
                mine = (200, *mine[1:])
            same_told(mine, theirs, longest)
        # one counter: the server denies what nginx has counted, and the other way about
        assert ask_server(server, "/api/x", address="192.0.2.1")[0] == 429
        assert nginx.status("/api/x", headers=[("X-Real", "192.0.2.2")]) == 429
        assert ask_server(server, "/login", "POST", "ann")[0] == 429
        # an attribute given twice is nobody's
        twice = nginx.ask("/login", method="POST", headers=[("Host", "shop.example"), ("X-User-Id", "a"),
                                                            ("x-user-id", "b")])
        assert twice[0] == 400
        assert json.loads(twice[2])["detail"] == "attribute 'user' is given twice: expected each once"
    finally:
        server.stop()


@in_one_window(3600)
def test_notation_is_told_as_the_servers_door_tells_it(place, sluice_bin):
    limits = ["sliding-window 2/1h", "token-bucket 5/1d burst 3", "fixed-window 9/1d", "sliding-log 400/1h"]
    nginx = place.start(limited(*[limit + " key=$arg_k" for limit in limits]))
    server = Server(sluice_bin, f"store: {{file: {place.file}}}\nlimits: []\n")
    answers, keys = [], ("one%d" % next(NAMES), "two%d" % next(NAMES))
    try:
        for _ in range(4):
            asked = time.monotonic()
            mine = nginx.ask("/?k=" + keys[0])
            with server.http() as http:
                status, headers, body = http.post("/v1/check", {"key": keys[1], "limits": limits})
            answers.append((mine, status, {k.lower(): v for k, v in headers}, body, time.monotonic() - asked))
        longest = max(elapsed for *_, elapsed in answers)
        assert [status for _, status, *_ in answers] == [200, 200, 429, 429]
        for mine, status, headers, body, _ in answers:
            for name in ("ratelimit-policy", "retry-after", "ratelimit"):
                assert (name in mine[1]) == (name in headers), (name, mine, headers)
                assert same_but_for_time(mine[1].get(name, ""), headers.get(name, ""), longest), (name, mine, headers)
            assert mine[0] == status
            if status == 429:
                assert json.loads(mine[2])["violated-policies"] == body["violated-policies"]
                assert same_but_for_time(json.loads(mine[2])["detail"], body["detail"], longest)
                told_in_one(mine[1], mine[2])
    finally:
        server.stop()


def test_a_policys_own_body(place):
    with open(os.path.join(str(place.folder), "slow.html"), "w", encoding="utf-8") as f:
        f.write('<p title="{{request_id}}">{{limit}}: {{remaining}} of {{quota}}</p>')
    policy = place.policy("denied: {body: %s/slow.html, type: text/html}\n"
                          "limits:\n  - {name: a, key: [], limit: sliding-log 0/1h}\n" % place.folder)
    nginx = place.start("location / { sluice_policy %s; empty_gif; }" % policy)
    status, headers, body = nginx.ask("/", headers=[("X-Request-Id", '"><script>')])
    assert (status, headers["content-type"]) == (429, "text/html; charset=utf-8")
    assert body == b'<p title="&#34;&gt;&lt;script&gt;">a: 0 of 0</p>'
    twice = nginx.ask("/", headers=[("X-Request-Id", "a"), ("X-Request-Id", "b")])
    assert twice[2] == b'<p title="">a: 0 of 0</p>'
    fine, said = place.nginx("location / { sluice_policy %s; empty_gif; }" % place.policy(
        "denied: {body: /nowhere.html, type: text/html}\nlimits: []\n")).test()
    assert not fine and "/nowhere.html" in said


# ---- deciding ----

def ask_many(nginx, path, threads, each):
    statuses = [[] for _ in range(threads)]

    def run(mine):
        for _ in range(each):
            mine.append(nginx.status(path))

    running = [threading.Thread(target=run, args=(mine,)) for mine in statuses]
    for one in running:
        one.start()
    for one in running:
        one.join()
    return [status for mine in statuses for status in mine]


def test_workers_never_admit_more_than_the_quota(place):
    nginx = place.start(limited("sliding-log 100/1h key=all", "sliding-log 70/1h key=less"), workers=4)
    statuses = ask_many(nginx, "/", threads=8, each=25)
    assert statuses.count(200) == 70 and statuses.count(429) == 130
    # all or nothing: what the second denied was not charged to the first
    assert re.search(r"remaining +29 of 100", place.cli("check", "all", "sliding-log 100/1h").stdout)


def test_a_cost_and_limits_of_different_costs(place):
    nginx = place.start(limited("sliding-log 10/1h key=a cost=$arg_cost name=bytes", "sliding-log 3/1h key=b"))
    assert nginx.ask("/?cost=7")[1]["ratelimit-policy"] == '"bytes";q=10;w=3600, "sliding-log 3/1h";q=3;w=3600'
    status, headers, body = nginx.ask("/?cost=4")
    assert status == 429 and headers["ratelimit"].startswith('"bytes";r=3;')
    assert json.loads(body)["detail"].startswith("limit bytes (sliding-log 10/1h) has 3 left, the request costs 4: ")
    assert nginx.status("/?cost=0") == 200   # nothing of the first, one of the second
    assert nginx.status("/?cost=") == 200    # no cost said: 1
    assert re.search(r"remaining +1 of 10", place.cli("check", "a", "sliding-log 10/1h").stdout)
    status, headers, body = nginx.ask("/?cost=0")
    assert status == 429 and headers["ratelimit"].startswith('"sliding-log 3/1h";r=0;')
    for cost in ("x", "-1", "1.5", "4294967296", "18446744073709551617", "1e3", "%20" * 3, "9" * 4000):
        status, headers, body = nginx.ask("/?cost=" + cost)
        assert status == 400 and headers["content-type"] == "application/problem+json", cost
        assert json.loads(body)["detail"].startswith("the cost must be a whole number 0..4294967295")
    status, headers, _ = nginx.ask("/?cost=4294967295")
    assert status == 429 and "retry-after" not in headers  # it can never pass


def test_a_request_without_a_key_is_not_counted(place):
    nginx = place.start(limited("sliding-log 1/1h key=$http_x_user"))
    for _ in range(3):
        status, headers, _ = nginx.ask("/")
        assert status == 200 and "ratelimit" not in headers
    assert [nginx.status("/", headers=[("X-User", "a")]) for _ in range(2)] == [200, 429]


def test_members_of_distinct(place):
    nginx = place.start(limited("distinct 2/1h key=$arg_user member=$arg_m"))
    assert [nginx.status("/?user=a&m=" + m) for m in "1123124"] == [200, 200, 200, 429, 200, 200, 429]


def test_keys_of_any_length_and_bytes_count_apart(place):
    nginx = place.start("client_header_buffer_size 64k; large_client_header_buffers 4 64k;" +
                        limited("sliding-log 1/1h key=$http_x_key"))
    long = "k" * 16384
    for key in ("short", long, long + "x", "\xff\xfe".encode("latin-1"), "a b", '"', "é".encode()):
        assert [nginx.status("/", headers=[("X-Key", key)]) for _ in range(2)] == [200, 429], key[:8]
    raw = b"GET / HTTP/1.1\r\nHost: a\r\nX-Key: a\0b\r\n\r\n"  # nginx refuses it before anybody is asked
    with socket.create_connection(("127.0.0.1", nginx.port), 10) as s:
        s.sendall(raw)
        assert s.recv(100).startswith(b"HTTP/1.1 400")
    assert nginx.status("/", headers=[("X-Key", "after")]) == 200


def test_places_inherit_as_everywhere_in_nginx(place):
    nginx = place.start("""
        sluice_limit sliding-log 1/1h key=server;
        location /inherits { empty_gif; }
        location /own { sluice_limit sliding-log 2/1h key=own; empty_gif; }
        location /off { sluice off; empty_gif; }
        location /own/status { sluice_limit sliding-log 0/1h key=never; sluice_status 503; empty_gif; }""")
    assert [nginx.status("/inherits") for _ in range(2)] == [200, 429]
    assert [nginx.status("/own") for _ in range(3)] == [200, 200, 429]
    assert [nginx.status("/off") for _ in range(3)] == [200] * 3
    status, headers, body = nginx.ask("/own/status")
    assert status == 503 and json.loads(body)["status"] == 503 and "retry-after" not in headers


def test_without_headers_a_denial_still_says_when(place):
    policy = place.policy("headers: none\nlimits:\n  - {name: a, key: [], limit: sliding-log 1/1h}\n")
    nginx = place.start("""
        location /directive { sluice_limit sliding-log 1/1h key=a; sluice_headers off; empty_gif; }
        location /policy { sluice_policy %s; empty_gif; }""" % policy)
    for path in ("/directive", "/policy"):
        passed, denied = nginx.ask(path), nginx.ask(path)
        assert (passed[0], denied[0], denied[1]["retry-after"]) == (200, 429, "3600"), denied
        assert not any("ratelimit" in name for name in (*passed[1], *denied[1])) and "retry-after" not in passed[1]


def test_a_dry_run_counts_tells_the_log_and_denies_nobody(place):
    nginx = place.start(limited("sliding-log 1/1h key=a", more="sluice_dry_run on; sluice_log_level warn;"
                                "add_header X-Status $sluice_status;"))
    told = [nginx.ask("/") for _ in range(3)]
    assert [t[0] for t in told] == [200] * 3 and not any("ratelimit" in t[1] for t in told)
    assert [t[1]["x-status"] for t in told] == ["PASSED", "REJECTED_DRY_RUN", "REJECTED_DRY_RUN"]
    lines = [text for level, text in levels(nginx.said()) if level == "warn"]
    assert len(lines) == 2
    assert lines[0].startswith("sluice: denying request, dry run: limit sliding-log 1/1h has 0 left")


def test_a_leaky_bucket_holds_requests(place):
    nginx = place.start("""
        location /held { sluice_limit leaky-bucket 4/1s queue 3 key=held; add_header X-S $sluice_status;
                         add_header X-D $sluice_delay; empty_gif; }
        location /told { sluice_limit leaky-bucket 1/1h queue 3 key=told; sluice_delay off;
                         add_header X-S $sluice_status; add_header X-D $sluice_delay; empty_gif; }""")
    statuses = ask_many(nginx, "/held", threads=6, each=1)
    assert statuses.count(200) >= 4 and statuses.count(429) == 6 - statuses.count(200)
    held = nginx.ask("/held")
    assert held[0] == 429 or held[1]["x-s"] in ("PASSED", "DELAYED")
    assert "delaying request by " in nginx.said()
    told = [nginx.ask("/told") for _ in range(2)]
    assert [t[1]["x-s"] for t in told] == ["PASSED", "PASSED"] and int(told[1][1]["x-d"]) > 3500000


def test_a_delay_is_logged_by_the_limit_that_asks_for_it(place):
    """Which decides is the one with the least left (rule 4.4): here the seats, which hold nobody up."""
    nginx = place.start("""
        location / { sluice_limit concurrency 3 lease 1h key=held name=seats;
                     sluice_limit leaky-bucket 2/1s queue 10 key=held name=queue;
                     add_header X-L $sluice_limit; add_header X-S $sluice_status; empty_gif; }""")
    told = [nginx.ask("/")[1] for _ in range(3)]
    assert told[-1]["x-s"] == "DELAYED" and {t["x-l"] for t in told} == {"seats"}
    lines = [line for line in nginx.said().splitlines() if "delaying request by " in line]
    assert lines and all(" ms: limit queue" in line for line in lines), lines


def test_a_lease_ends_with_its_request(place):
    """A limit of concurrency holds a seat from the decision to the end of the response, whoever ends it."""
    nginx = place.start("""
        location /slow { sluice_limit concurrency 1 lease 1h key=a; limit_rate 1; root {folder}; }
        location /fast { sluice_limit concurrency 1 lease 1h key=a; empty_gif; }""")
    with open(os.path.join(nginx.folder, "slow"), "wb") as f:
        f.write(b"x" * 4096)
    assert [nginx.status("/fast") for _ in range(3)] == [200] * 3
    with socket.create_connection(("127.0.0.1", nginx.port), 10) as s:
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        assert s.recv(1) == b"H"
        status, headers, body = nginx.ask("/fast")
        assert status == 429 and json.loads(body)["violated-policies"] == ["concurrency 1 lease 1h"]
    wait_until(lambda: nginx.status("/fast") == 200, "the lease of a client that went away")


SEATS = "concurrency 3 lease 1h"


def seats(place):
    return json.loads(place.cli("inspect", "held", SEATS, "--json").stdout)[0]["used"]


def test_a_client_who_leaves_while_he_is_held_ends_his_request(place):
    """His seat is free at once, also where he had gone before he was held, and where it is a stream of HTTP/2."""
    queue = "sluice_limit leaky-bucket 1/1h queue 9 key=held;"
    conf = "location / { sluice_limit %s key=held; %s empty_gif; }" % (SEATS, queue)
    http2 = " server { listen unix:{folder}/h2 http2; %s }" % conf
    nginx = place.nginx(conf)
    nginx.write(place.conf(conf) + http2)
    nginx.start()
    assert nginx.status("/") == 200
    with socket.create_connection(("127.0.0.1", nginx.port), DEADLINE_S) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        wait_until(lambda: seats(place) == 1, "he is not held")
    wait_until(lambda: seats(place) == 0, "he left")
    worker = nginx.workers_now()[0]
    os.kill(worker, signal.SIGSTOP)  # all is there before it reads
    with socket.create_connection(("127.0.0.1", nginx.port), DEADLINE_S) as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    os.kill(worker, signal.SIGCONT)
    wait_until(lambda: nginx.said().count("delaying request") == 2 and seats(place) == 0, "he had left")
    if shutil.which("curl") is None:
        return
    with subprocess.Popen(["curl", "-s", "--http2-prior-knowledge", "--unix-socket", nginx.folder + "/h2",
                           "http://a/"]) as curl:
        wait_until(lambda: seats(place) == 1, "the stream is not held")
        curl.kill()
    wait_until(lambda: seats(place) == 0, "the stream has ended")


@pytest.fixture(scope="session")
def no_memory(tmp_path_factory):
    shim = str(tmp_path_factory.mktemp("no_memory") / "no_memory.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", shim,
                    os.path.join(ROOT, "tests", "e2e", "no_memory.c")], check=True, timeout=120)
    return shim


SEAT = "sluice_limit concurrency 1 lease 1h key=a;"


def named(count):
    return "".join(f"sluice_limit sliding-log 100/{n}h key=a name={'n' * 62}{n};" for n in range(10, 10 + count))


# What the pool of a request asks malloc() for is what is too large for it, and nothing else has these sizes.
@pytest.mark.parametrize("pool, sizes, limits, key_bytes", [
    ("4k", (4500, 6000), "".join(f"sluice_limit concurrency 1 lease 1h key={n}$arg_u;" for n in range(4)), 900),
    ("4k", (4050, 4900), SEAT + named(8), 1),
    ("256", (270, 310), SEAT + named(2), 1),
], ids=["the ticket", "room for headers", "the headers"])
def test_without_memory_for_what_is_kept_a_lease_is_given_back(place, no_memory, pool, sizes, limits, key_bytes):
    """It fails when the seat has been taken: the request gets a 500, its worker lives, the next one has the seat."""
    scarce = os.path.join(str(place.folder), "scarce")
    nginx = place.start(f"request_pool_size {pool}; location / {{ {limits} empty_gif; }}", environment={
        "LD_PRELOAD": no_memory, "NO_MEMORY_WHILE": scarce, "NO_MEMORY_FROM": str(sizes[0]),
        "NO_MEMORY_TO": str(sizes[1])})
    workers = nginx.workers_now()
    path = "/?u=" + "u" * key_bytes
    assert nginx.status(path) == 200
    with open(scarce, "wb"):
        pass
    assert [nginx.status(path) for _ in range(3)] == [500] * 3
    os.unlink(scarce)
    assert [nginx.status(path) for _ in range(3)] == [200] * 3
    assert nginx.workers_now() == workers and "signal" not in nginx.said()


def test_a_policys_lease_and_reservation(place):
    policy = place.policy("""
limits:
  - {name: seats, when: {path: /api*}, key: [], limit: concurrency 2 lease 1h}
  - {name: tokens, when: {path: /api*}, key: [], limit: sliding-log 100/1h, reserve: {estimate: 60, ttl: 1h}}
""")
    nginx = place.start(f"""
        location /api {{ sluice_policy {policy}; proxy_pass http://127.0.0.1:{{port}}/app;
                         proxy_hide_header X-Actual-Cost; }}
        location /app {{ add_header X-Actual-Cost $arg_cost; empty_gif; }}""")

    for cost, left in ((10, 30), (5, 25)):
        status, headers, _ = nginx.ask("/api?cost=%d" % cost)
        assert status == 200 and "x-actual-cost" not in headers
        assert '"tokens";q=100;w=3600' in headers["ratelimit-policy"]
        assert f'"tokens";r={left};' in headers["ratelimit"] or '"seats"' in headers["ratelimit"]
    # 15 are spent; 60 of the next are held until it says what it cost; one that says nothing stays charged
    assert nginx.status("/api") == 200
    assert nginx.status("/api?cost=1") == 429


# ---- nginx' own ways ----

def test_error_pages_keep_headers_and_count_once(place):
    nginx = place.start("""
        location /named { error_page 429 = @limited; sluice_limit sliding-log 2/1h key=n; empty_gif; }
        location /kept { error_page 429 @limited; sluice_limit sliding-log 2/1h key=k; empty_gif; }
        location /uri { error_page 429 /limited.html; sluice_limit sliding-log 2/1h key=u; empty_gif; }
        location = /limited.html { internal; sluice_limit sliding-log 1/1h key=page; root {folder}; }
        location @limited { sluice_limit sliding-log 1/1h key=page; default_type text/plain;
                            return 200 "$sluice_status $sluice_limit $sluice_quota $sluice_remaining"; }""")
    with open(os.path.join(nginx.folder, "limited.html"), "w", encoding="ascii") as f:
        f.write("my page")
    for path, status, body in (("/named", 200, b"REJECTED sliding-log 2/1h 2 0"),
                               ("/kept", 429, b"REJECTED sliding-log 2/1h 2 0"), ("/uri", 429, b"my page")):
        assert [nginx.status(path) for _ in range(2)] == [200, 200]
        for _ in range(3):  # the page's own limit is never asked: the request was decided
            told = nginx.ask(path)
            assert (told[0], told[2]) == (status, body)
            assert told[1]["ratelimit"].startswith('"sliding-log 2/1h";r=0;t=') and "retry-after" in told[1]
            assert told[1]["cache-control"] == "no-store"


def test_a_denial_where_an_error_page_is_made_has_its_own_status(place):
    """The request is decided only there: what it was to be the page of is no longer true."""
    nginx = place.start("""
        location /missing { error_page 404 /page; root {folder}; }
        location /fine { error_page 404 =200 /page; root {folder}; }
        location = /page { sluice_limit sliding-log 1/1h key=$request_uri; empty_gif; }""")
    for path, status in (("/missing", 404), ("/fine", 200)):
        assert nginx.status(path) == status
        denied = nginx.ask(path)
        assert denied[0] == 429 and json.loads(denied[2])["status"] == 429 and "retry-after" in denied[1]


def bytes_told(nginx, request):
    """All bytes that a connection gets for it, until nginx closes it."""
    with socket.create_connection(("127.0.0.1", nginx.port), DEADLINE_S) as s:
        s.sendall(request)
        return b"".join(iter(lambda: s.recv(65536), b""))


def test_a_denial_asks_for_no_body(place):
    nginx = place.start(limited("sliding-log 0/1h key=a") + "lingering_close off;")
    answer = bytes_told(nginx, b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 1000000\r\n"
                               b"Expect: 100-continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 429 "), answer


def test_444_closes_the_connection(place):
    nginx = place.start(limited("sliding-log 1/1h key=a", more="sluice_status 444;"))
    assert nginx.status("/") == 200
    assert bytes_told(nginx, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") == b""
    assert "denying request" in nginx.said()


def test_parts_of_a_request_are_not_counted(place):
    """Subrequests (auth_request, ssi) and internal redirects (index, try_files) belong to their request."""
    nginx = place.start("""
        sluice_limit sliding-log 3/1h key=$uri;
        location /guarded { auth_request /ask; sluice_limit sliding-log 3/1h key=g; empty_gif; }
        location = /ask { sluice_limit sliding-log 0/1h key=never; empty_gif; }
        location /dir/ { sluice_limit sliding-log 3/1h key=d; index index.html; root {folder}; }
        location = /dir/index.html { sluice_limit sliding-log 0/1h key=never; ssi on; root {folder}; }
        location /try { sluice_limit sliding-log 3/1h key=t; try_files /nothing /dir/index.html; root {folder}; }""")
    os.makedirs(os.path.join(nginx.folder, "dir"))
    with open(os.path.join(nginx.folder, "dir", "index.html"), "w", encoding="ascii") as f:
        f.write('<!--#include virtual="/ask" -->')
    for path in ("/guarded", "/dir/", "/try"):
        assert [nginx.status(path) for _ in range(4)] == [200, 200, 200, 429], path


def test_the_address_is_that_which_realip_finds(place):
    nginx = place.start("""
        location / { set_real_ip_from 127.0.0.1; real_ip_header X-Real; sluice_limit sliding-log 1/1h key=$sluice_ip;
                     add_header X-Ip $sluice_ip always; empty_gif; }""")
    for address, shown in (("192.0.2.1", "192.0.2.1"), ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
                           ("::ffff:192.0.2.9", "192.0.2.9")):
        told = nginx.ask("/", headers=[("X-Real", address)])
        assert (told[0], told[1]["x-ip"]) == (200, shown)
        assert nginx.status("/", headers=[("X-Real", address)]) == 429
    assert nginx.status("/", headers=[("X-Real", "2001:db8:1:2:ffff::1")]) == 429  # the same network


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_http2(place):
    conf = limited("sliding-log 1/1h key=$remote_addr name=h2")
    nginx = place.nginx(conf)
    nginx.write(place.conf(conf).replace("{port};", "{port} http2;"))
    nginx.start()

    def ask():
        done = subprocess.run(["curl", "-si", "--http2-prior-knowledge", f"http://127.0.0.1:{nginx.port}/"],
                              stdout=subprocess.PIPE, check=True)
        return done.stdout

    first, second = ask(), ask()
    assert first.startswith(b"HTTP/2 200") and b'\r\nratelimit: "h2";r=0;t=3600\r\n' in first
    assert second.startswith(b"HTTP/2 429") and b"\r\nretry-after: " in second and b"quota-exceeded" in second


def test_head_and_a_body_that_nobody_reads(place):
    nginx = place.start(limited("sliding-log 0/1h key=a") + "client_max_body_size 10m;")
    status, headers, body = nginx.ask("/", method="HEAD")
    assert status == 429 and int(headers["content-length"]) > 100 and body == b""
    assert nginx.ask("/", method="POST", headers=[("Content-Length", "100000")], body=b"x" * 100000)[0] == 429
    assert nginx.status("/") == 429


# ---- configuration ----

WRONG = [
    ("sluice_limit 10/1x key=a;", r'invalid limit "10/1x": column \d+: .* in .*nginx\.conf:\d+'),
    ("sluice_limit 10/1s;", r'"sluice_limit" directive has no key: expected key=VALUE, such as key=\$sluice_ip'),
    ("sluice_limit key=a 10/1s;", r'has no limit before its parameters: expected one, such as 600/1m key='),
    ("sluice_limit 10/1s key=a key=b;", r'duplicate parameter "key=b": a limit takes each once'),
    ("sluice_limit 10/1s key=a name=b name=c;", r'duplicate parameter "name=c": a limit takes each once'),
    ("sluice_limit 10/1s key=a name=$uri;", r"has a variable in its name: expected a name that is the same"),
    ("sluice_limit 10/1s key=a cost=free;", r"has an invalid cost: expected a whole number 0..4294967295, or a var"),
    ("sluice_limit 10/1s key=a cost=4294967296;", r"has an invalid cost: "),
    ("sluice_limit 10/1s cost=1;", r'"sluice_limit" directive has no key: expected key=VALUE'),
    ("sluice_limit 10/1s key=$nothing_of_the_kind;", r'unknown "nothing_of_the_kind" variable'),
    ("sluice_limit 10/1s key=a kee=b;", r'invalid parameter "kee=b": expected key=VALUE, cost=VALUE'),
    ("sluice_limit 10/1s key=a member=b;", r"has a member: only a limit of distinct counts members"),
    ("sluice_limit distinct 10/1s key=a;", r"has no member: a limit of distinct counts those of member=VALUE"),
    ("sluice_limit 10/1s key=a name=%s;" % ("n" * 65), r"a name of 1 to 64 bytes"),
    ("sluice_limit 10/1s key=a;" * 17, r"is one too many: a request has at most 16 limits"),
    ("sluice_status 200;", r"value must be between 400 and 599"),
    ("sluice_on_error maybe;", r'"sluice_on_error" directive has an invalid value: expected allow or deny'),
    ("sluice_log_level loud;", r"has an invalid value: expected info, notice, warn or error in .*conf:\d+"),
    ("sluice_on_error deny; sluice_on_error allow;", r'"sluice_on_error" directive is duplicate'),
    ("sluice_dry_run perhaps;", r'invalid value "perhaps"'),
    ("sluice_policy /nowhere/policy.yaml;", r'the policy "/nowhere/policy.yaml" can\'t be read: .* in .*conf:\d+'),
    ("sluice_attribute a $uri; sluice_attribute a $uri;", r'"sluice_attribute" directive is duplicate'),
    ("sluice_store shared:a;", r'"sluice_store" directive is not allowed here'),
]


@pytest.mark.parametrize("words,says", WRONG, ids=[re.sub(r"\W+", "-", words)[:40] for words, _ in WRONG])
def test_a_mistake_is_told_with_its_place(place, words, says):
    nginx = place.nginx("location / { %s empty_gif; }" % words)
    fine, said = nginx.test()
    assert not fine and re.search(says, said), said
    assert not os.path.exists(place.file)


@pytest.mark.parametrize("store,says", [
    ("sluice_store memory;", "expected shared:NAME or file:PATH"),
    ("sluice_store shared:a/b;", "a name of shared memory has 1 to 200 letters"),
    ("sluice_store file:;", "the path of the store's file is empty"),
    ("sluice_store shared:a memory=12;", "a store takes 1 MiB to 256 GiB"),
    ("sluice_store shared:a memory=-1m;", 'invalid parameter "memory=-1m"'),
    ("sluice_store shared:a memory=64MiB;", 'parameter "memory=64MiB": expected memory=SIZE, such as 64m or 1g'),
    ("sluice_store shared:a mode=0888;", 'invalid parameter "mode=0888"'),
    ("sluice_store shared:a; sluice_store shared:b;", '"sluice_store" directive is duplicate'),
    ("", "sluice: there are limits, but no \"sluice_store\" in the http block to count in: add one, such as "
         "sluice_store shared:nginx memory=64m;"),
])
def test_a_store_that_is_none_is_told(place, store, says):
    fine, said = place.nginx(limited("1/1s key=a"), store=store).test()
    assert not fine and says in said, said


def test_all_mistakes_of_a_policy_are_told(place):
    policy = place.policy("limits:\n  - {name: a, limit: 10/1x}\n  - {name: a, key: ip, limit: 1/1s, nonsense: 1}\n")
    fine, said = place.nginx("location / { sluice_policy %s; empty_gif; }" % policy).test()
    assert not fine and len(re.findall(re.escape(policy) + r":\d+:\d+: ", said)) >= 2, said


def test_a_policy_that_is_too_long_is_told(place):
    policy = place.policy("limits: []\n")
    os.truncate(policy, 64 * 1024 * 1024 + 1)
    fine, said = place.nginx("location / { sluice_policy %s; empty_gif; }" % policy).test()
    assert not fine and f"{policy}:1:1: expected a file of at most 67108864 bytes" in said, said


def test_testing_a_configuration_opens_nothing(place):
    nginx = place.nginx(limited("1/1s key=a"))
    assert nginx.test()[0] and not os.path.exists(place.file)


def test_a_reload_keeps_counters(place):
    nginx = place.start(limited("sliding-log 3/1h key=a"))
    assert [nginx.status("/") for _ in range(2)] == [200, 200]
    assert nginx.reload(place.conf(limited("sliding-log 5/1h key=a", more="sluice_status 503;")))
    assert [nginx.status("/") for _ in range(4)] == [200, 200, 200, 503]
    assert not nginx.reload(place.conf(limited("sliding-log 5/1z key=a")))
    assert nginx.status("/") == 503


def test_a_reload_with_another_size_is_refused(place):
    """No new worker could open the store, and all requests would pass."""
    conf = limited("sliding-log 2/1h key=a")
    nginx = place.start(conf)
    assert [nginx.status("/") for _ in range(3)] == [200, 200, 429]
    place.store = f"sluice_store file:{place.file} memory=4m;"
    wrong = f'invalid store "file:{place.file}": \'{place.file}\': has 2097152 bytes (2 MiB), not 4194304; say that or '
    assert not nginx.reload(place.conf(conf)) and wrong in nginx.said()
    assert nginx.status("/") == 429
    fine, said = nginx.test()
    assert fine and "[warn]" in said and wrong in said, said
    for memory in ("memory=2m", ""):
        place.store = f"sluice_store file:{place.file} {memory};"
        assert nginx.reload(place.conf(conf)) and nginx.status("/") == 429
        fine, said = nginx.test()
        assert fine and "[warn]" not in said, said
    os.unlink(place.file)  # then there is none
    place.store = f"sluice_store file:{place.file} memory=4m;"
    assert nginx.reload(place.conf(conf)) and nginx.status("/") == 200


def test_a_policy_is_read_again_at_a_reload(place):
    policy = place.policy("limits:\n  - {name: a, key: [], limit: sliding-log 3/1h}\n")
    conf = "location / { sluice_policy %s; empty_gif; }" % policy
    nginx = place.start(conf)
    assert [nginx.status("/") for _ in range(2)] == [200, 200]
    with open(policy, "w", encoding="utf-8") as f:
        f.write("limits:\n  - {name: a, key: [], limit: sliding-log 2/1h}\n")
    assert nginx.status("/") == 200  # not before
    assert nginx.reload() and nginx.status("/") == 429
    with open(policy, "w", encoding="utf-8") as f:
        f.write("limits: [\n")
    assert not nginx.reload() and nginx.status("/") == 429
    with open(policy, "w", encoding="utf-8") as f:  # it would disarm, and does not say so
        f.write("attributes: {user: header x-user}\n")
    assert not nginx.reload() and nginx.status("/") == 429
    assert f'the policy "{policy}" was rejected: ' in nginx.said()
    with open(policy, "w", encoding="utf-8") as f:
        f.write("limits: []\n")
    assert nginx.reload() and nginx.status("/") == 200


def test_a_reload_may_load_the_module(place):
    """The configuration before did not know it."""
    policy = place.policy("limits:\n  - {name: a, key: [], limit: sliding-log 2/1h}\n")
    nginx = place.nginx("")
    nginx.write("server { listen 127.0.0.1:{port}; location / { empty_gif; } }")
    with open(nginx.conf, encoding="utf-8") as f:
        without = re.sub("^load_module .*\n", "", f.read())
    with open(nginx.conf, "w", encoding="utf-8") as f:
        f.write(without)
    nginx.start()
    assert nginx.status("/") == 200
    nginx.write(place.conf("location / { sluice_policy %s; empty_gif; }" % policy))
    workers = nginx.workers_now()
    nginx.process.send_signal(signal.SIGHUP)
    wait_until(lambda: nginx.process.poll() is not None or nginx.workers_now() not in ([], workers), "no reload")
    assert nginx.process.poll() is None, "it has ended the master"
    wait_until(lambda: workers[0] not in nginx.workers_now(), "the old worker")
    assert [nginx.status("/") for _ in range(3)] == [200, 200, 429]
    assert nginx.reload() and nginx.status("/") == 429


# ---- a store that is away, workers that die ----

@pytest.mark.parametrize("damage", ["missing folder", "no store", "a link"])
def test_a_store_that_cant_be_opened_is_told_and_tried_again(place, damage):
    folder = os.path.join(str(place.folder), "later")
    file = os.path.join(folder, "counters")
    if damage != "missing folder":
        os.makedirs(folder)
    if damage == "no store":
        with open(file, "wb") as f:
            f.write(b"this is no store" * 1000)
    if damage == "a link":
        os.symlink("/etc/hostname", file)
    nginx = place.start("""
        location /allows { sluice_limit sliding-log 1/1h key=a; add_header X-S $sluice_status; empty_gif; }
        location /denies { sluice_limit sliding-log 1/1h key=a name=strict; sluice_on_error deny; empty_gif;
                           add_header X-Is "$sluice_limit $sluice_quota $sluice_remaining" always; }""",
                        store=f"sluice_store file:{file} memory=2m;")
    told = [nginx.ask("/allows") for _ in range(3)]
    assert [t[0] for t in told] == [200] * 3 and {t[1]["x-s"] for t in told} == {"ERROR"}
    assert not any("ratelimit" in t[1] for t in told)
    status, headers, body = nginx.ask("/denies")
    assert status == 503 and headers["retry-after"] == "1" and json.loads(body)["violated-policies"] == ["strict"]
    assert headers["x-is"] == "strict 1 0"
    said = nginx.said()
    assert f"sluice: store {file} can't be opened, tried again in 1000 ms: " in said
    assert said.count("the store did not answer (it is not open): on-error") <= 2 + len(told)
    os.makedirs(folder, exist_ok=True)
    if damage != "missing folder":
        os.unlink(file)
    wait_until(lambda: nginx.ask("/allows")[1].get("x-s") != "ERROR", "the store was not tried again")
    assert nginx.status("/allows") == 429 and nginx.status("/denies") == 429
    assert f"sluice: store {file}: opened, requests are decided again" in nginx.said()


def test_a_store_that_another_is_opening_holds_up_no_worker(place):
    """A worker that has clients tries again later. Whoever opens a store has byte 2^40 of it locked (os/process.c)."""
    aside, later = (os.path.join(str(place.folder), name) for name in ("aside", "later"))
    os.makedirs(aside)
    assert subprocess.run([place.bin, "store", "create", aside + "/counters", "--memory", "2MiB"],
                          check=False).returncode == 0
    nginx = place.start(limited("100/1h key=a", more="add_header X-S $sluice_status;"),
                        store=f"sluice_store file:{later}/counters memory=2m;")
    with open(aside + "/counters", "r+b") as guard:
        fcntl.lockf(guard, fcntl.LOCK_EX, 1, 1 << 40)
        os.rename(aside, later)
        while ": another process is opening it" not in nginx.said():
            asked = time.monotonic()
            assert nginx.ask("/")[1]["x-s"] == "ERROR"
            assert time.monotonic() - asked < 5, "the worker waits for it"
    wait_until(lambda: nginx.ask("/")[1]["x-s"] == "PASSED", "the store was not opened")


def test_a_worker_that_is_killed_leaves_nothing_behind(place):
    nginx = place.start(limited("sliding-log 50/1h key=a", "concurrency 8 lease 1h key=b"), workers=2)
    stop = threading.Event()
    allowed = []

    def ask():
        while not stop.is_set():
            try:
                allowed.append(nginx.status("/") == 200)
            except OSError:
                pass  # its worker was killed; what it had charged stays charged

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        workers = wait_until(lambda: len(nginx.workers_now()) == 2 and nginx.workers_now(), "two workers")
        os.kill(workers[0], signal.SIGKILL)
        wait_until(lambda: workers[0] not in nginx.workers_now(), "it has died")
    stop.set()
    for thread in threads:
        thread.join()
    assert sum(allowed) <= 50
    server = Server(place.bin, f"store: {{file: {place.file}}}\nlimits: []\n")
    server.stop()
    nginx.stop()
    verified = place.cli("inspect", "--verify")
    assert verified.returncode == 0, verified.stdout


def test_a_process_that_is_stopped_holds_up_its_own_counters_only(place, neighbour_bin):  # noqa: F811
    """It sits on the lock of one key: who needs it waits, without the worker; then on-error; all others are decided."""
    nginx = place.start("""
        location /open { sluice_limit 100/1h key=$arg_k; add_header X-S $sluice_status; empty_gif; }
        location /closed { sluice_limit 100/1h key=$arg_k; sluice_on_error deny; empty_gif; }
        location /dry { sluice_limit 100/1h key=$arg_k; sluice_dry_run on; add_header X-S $sluice_status;
                        empty_gif; }""")
    assert nginx.status("/open?k=held") == 200
    free = keys_elsewhere(neighbour_bin, place.file, "free", 50, "100/1h", "held")
    neighbour = Neighbour(neighbour_bin, place.file, "held")
    try:
        assert nginx.ask("/dry?k=held")[1]["x-s"] == "ERROR"  # at once, for a dry run delays nobody; the next one waits
        waiting, asked = [], time.monotonic()
        thread = threading.Thread(target=lambda: waiting.append(nginx.ask("/open?k=held")))
        thread.start()
        for key in free:
            assert nginx.ask("/open?k=" + key)[1]["x-s"] == "PASSED"
        thread.join(DEADLINE_S)
        assert time.monotonic() - asked > 0.9
        assert waiting[0][0] == 200 and waiting[0][1]["x-s"] == "ERROR" and "ratelimit" not in waiting[0][1]
        status, headers, body = nginx.ask("/closed?k=held")  # at once now: it is known to be stopped
        assert status == 503 and headers["retry-after"] == "1"
        assert json.loads(body)["title"] == "Store held up"
        assert "was stopped with one of its locks in hand): on-error allows requests" in nginx.said()
        neighbour.go_on()
        wait_until(lambda: nginx.ask("/open?k=held")[1]["x-s"] == "PASSED", "it has moved")
    finally:
        neighbour.end()


def test_a_worker_that_is_told_to_stop_ends_leases(place):
    nginx = place.start("location /slow { sluice_limit concurrency 1 lease 1h key=a; limit_rate 1; root {folder}; }")
    with open(os.path.join(nginx.folder, "slow"), "wb") as f:
        f.write(b"x" * 4096)
    with socket.create_connection(("127.0.0.1", nginx.port), 10) as s:
        s.sendall(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        assert s.recv(1) == b"H"
        assert "denied" in place.cli("inspect", "a", "concurrency 1 lease 1h").stdout
        nginx.stop()
    said = place.cli("inspect", "a", "concurrency 1 lease 1h", "--json")
    assert '"used":0' in said.stdout.replace(" ", ""), said.stdout


def test_a_bound_denies_its_limit_and_is_no_error(place):
    """Seventeen limits of a policy apply: the last is beyond what is decided together, and denies."""
    policy = place.policy("limits:\n" + "".join("  - {name: l%d, key: [], limit: 1000/1h}\n" % i for i in range(17)))
    nginx = place.start("location / { sluice_policy %s; sluice_limit 5/1h key=a; empty_gif; }" % policy)
    status, headers, body = nginx.ask("/")
    assert status == 429 and "bound: limits" in json.loads(body)["detail"] and "retry-after" not in headers
    assert json.loads(body)["violated-policies"] == ["l16"]


def test_sixteen_of_a_policy_and_one_more(place):
    policy = place.policy("limits:\n" + "".join("  - {name: l%d, key: [], limit: 1000/1h}\n" % i for i in range(16)))
    nginx = place.start("location / { sluice_policy %s; sluice_limit 5/1h key=a; empty_gif; }" % policy)
    assert nginx.status("/") == 429
    assert json.loads(nginx.ask("/")[2])["violated-policies"] == ["sliding-window 5/1h"]
    nginx.reload(place.conf("location / { sluice_policy %s; empty_gif; }" % policy))
    assert nginx.status("/") == 200


def test_attributes_of_variables_go_before_all_others(place):
    policy = place.policy("""
attributes: {user: header x-user-id}
limits:
  - {name: user, key: user, limit: sliding-log 1/1h}
  - {name: plan, when: {plan: free}, key: [plan, ip], limit: sliding-log 2/1h}
""")
    nginx = place.start("""
        location / { sluice_policy %s; sluice_attribute user $arg_u; sluice_attribute plan $arg_p;
                     sluice_attribute ip $arg_ip; empty_gif; }""" % policy)
    assert [nginx.status("/?u=a", headers=[("X-User-Id", "b")]) for _ in range(2)] == [200, 429]
    assert nginx.status("/", headers=[("X-User-Id", "b")]) == 200  # an empty variable says nothing
    assert [nginx.status("/?p=free&ip=192.0.2.1") for _ in range(3)] == [200, 200, 429]
    assert nginx.status("/?p=free&ip=192.0.2.2") == 200 and nginx.status("/?p=pro&ip=192.0.2.1") == 200


def test_variables_in_an_access_log(place):
    nginx = place.start(limited("sliding-log 1/1h key=a name=one", more="access_log {folder}/access.log told;"),
                        'log_format told "$status $sluice_status $sluice_limit $sluice_quota $sluice_remaining '
                        '$sluice_retry_after $sluice_reset_after";')
    path = os.path.join(nginx.folder, "access.log")
    assert [nginx.status("/") for _ in range(2)] == [200, 429]

    def lines():
        with open(path, encoding="ascii") as f:
            return f.read().split("\n")[:-1]

    first, second = wait_until(lambda: len(lines()) == 2 and lines(), "two lines")
    assert re.fullmatch(r"200 PASSED one 1 0 0 3600000", first) and re.fullmatch(
        r"429 REJECTED one 1 0 \d+ \d+", second)


def test_a_path_as_nginx_takes_it(place):
    """A slash that is written %2F chooses a location, and is none in a path: the location's own path has it."""
    policy = place.policy("limits:\n  - {name: login, when: {path: /login}, key: [], limit: sliding-log 1/1h}\n")
    nginx = place.start("""
        sluice_policy %s;
        location / { return 404; }
        location = /login { empty_gif; }
        location = /own/login { rewrite ^/own(.*) $1 break; sluice_attribute path $uri; empty_gif; }""" % policy)
    evades, own = "/x%2F..%2Flogin", "/own/x/%2e%2e%2flogin?q"
    assert [nginx.status(path) for path in ("/login", "/login", evades, own)] == [200, 429, 200, 429]


def blocks(language):
    """Of docs/nginx.md."""
    with open(os.path.join(ROOT, "docs", "nginx.md"), encoding="utf-8") as f:
        return re.findall("^```%s\n(.*?)^```" % language, f.read(), re.M | re.S)


@pytest.mark.parametrize("which", ["module.conf", "nginx.md"])
def test_the_example(place, which):
    """examples/nginx/module.conf and the first configuration of docs/nginx.md as they are, but for ports and store."""
    with open(os.path.join(ROOT, "examples", "nginx", "module.conf"), encoding="utf-8") as f:
        text = f.read() if which == "module.conf" else blocks("nginx")[0]
    nginx = place.nginx("")
    text = re.sub(r"listen .*8000;", "listen 127.0.0.1:{port};", text.replace("shared:nginx", f"file:{place.file}"))
    nginx.write(text.replace("127.0.0.1:8080", "unix:{folder}/nobody"))
    nginx.start()
    told = [nginx.ask("/login") for _ in range(6)]
    assert [t[0] for t in told] == [502] * 5 + [429]  # there is no app
    assert told[0][1]["ratelimit-policy"] == '"per-client";q=600;w=60, "login";q=5;w=60'
    assert told[5][1]["ratelimit"].startswith('"login";r=0;t=')
    if which == "nginx.md":  # what it shows of the sixth
        shown = dict(re.findall(r"^([\w-]+): (.*)$", blocks("console")[0], re.M))
        assert len(shown) == 5
        for name, value in shown.items():
            assert re.sub(r"\b(60|59)$", "60", told[5][1][name.lower()]) == value
    else:
        assert nginx.status("/search") == 502 and nginx.status("/reports") == 502


@pytest.mark.parametrize("which", ["sluice.conf", "reserve.conf"])
def test_the_examples_of_auth_request_load_beside_the_module(place, which):
    """nginx sets no variable that has the name of a module's own: it would not start once the module is installed."""
    with open(os.path.join(ROOT, "examples", "nginx", which), encoding="utf-8") as f:
        text = f.read().replace("    listen [::1]:8000;\n", "").replace("127.0.0.1:8000", "127.0.0.1:{port}")
    assert "8000" not in text
    nginx = place.nginx("")
    nginx.write(text)
    assert nginx.test()[0], nginx.test()[1]
