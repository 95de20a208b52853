"""Real clients, as their users run them: redis-cli, redis-benchmark, redis-py, seven npm clients, curl."""

import json
import os
import re
import shutil
import subprocess

import pytest
import redis

from harness import DEADLINE_S, encode, still_serves
from terminal import Terminal

POLICY = """
limits:
  - name: per-user
    key: user
    limit: fixed-window 3/3660d
"""


@pytest.fixture(scope="module")
def policy_server(sluice_bin):
    from harness import Server
    one = Server(sluice_bin, POLICY)
    yield one
    one.stop()


def program(name):
    path = shutil.which(name)
    assert path, f"{name} is not installed: apt-get install redis-tools curl"
    return path


def run(*command, stdin=b""):
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


# ---- redis-cli -------------------------------------------------------------------------------------------------------

def cli(server, *words):
    return run(program("redis-cli"), "-p", str(server.resp_port), *words)


@pytest.mark.parametrize("protocol", [[], ["-3"]], ids=["resp2", "resp3"])
def test_redis_cli_one_shot(policy_server, protocol):
    key = "cli" + "".join(protocol)
    status, out, err = cli(policy_server, *protocol, "SLUICE.CHECK", key, "1", "fixed-window 2/3660d")
    assert (status, err) == (0, "")
    assert out.split()[:4] == ["1", "2", "1", "0"] and len(out.split()) == 7
    status, out, _ = cli(policy_server, *protocol, "--no-raw", "SLUICE.PEEK", key, "2", "fixed-window 2/3660d")
    assert out.startswith("1) (integer) 0\n2) (integer) 2\n3) (integer) 1\n4) (integer) ") and out.count("\n") == 7
    status, out, _ = cli(policy_server, *protocol, "SLUICE.RESET", key, "fixed-window 2/3660d")
    assert (status, out) == (0, "1\n")


def test_redis_cli_shows_errors(policy_server):
    _, out, _ = cli(policy_server, "SLUICE.CHECK", "k", "1", "100/60x")
    assert out.startswith("ERR ") and "column" in out
    status, out, err = cli(policy_server, "-e", "SLUICE.CHECK", "k", "one", "100/60s")
    assert status == 1 and (out + err).startswith("ERR ")


def test_redis_cli_pipe(policy_server):
    commands = b"".join(encode("SLUICE.CHECK", f"pipe:{i % 7}", 1, "5/3660d") for i in range(2000))
    status, out, err = run(program("redis-cli"), "-p", str(policy_server.resp_port), "--pipe", stdin=commands)
    assert status == 0 and "errors: 0, replies: 2000" in out, (out, err)


def test_redis_cli_reads_commands_from_standard_input(policy_server):
    status, out, _ = run(program("redis-cli"), "-p", str(policy_server.resp_port),
                         stdin=b'ping\nsluice.check "a key" 1 "fixed-window 9/3660d"\nsluice.admit 1 user stdin\n')
    assert status == 0
    lines = out.split()
    assert lines[0] == "PONG" and lines[1:4] == ["1", "9", "8"] and lines[8:11] == ["1", "3", "2"]
    assert lines[-1] == "per-user"


def test_redis_cli_on_a_terminal(policy_server):
    """As a person sits before it: it asks COMMAND DOCS first, then takes what is typed."""
    port = str(policy_server.resp_port)
    environment = {**os.environ, "TERM": "xterm", "HISTFILE": "/dev/null", "REDISCLI_HISTFILE": "/dev/null"}
    terminal = Terminal([program("redis-cli"), "-p", port], 40, 200, env=environment)

    def type_line(line):
        """Types at the prompt: what is typed before it shows is lost."""
        terminal.until(rb"127\.0\.0\.1:%s> $" % port.encode())
        terminal.type(line + b"\r")

    type_line(b"ping")
    terminal.until(rb"\r\nPONG\r\n")
    type_line(b'sluice.check tty 1 "fixed-window 5/3660d"')
    terminal.until(rb"1\) \(integer\) 1\r\n2\) \(integer\) 5\r\n3\) \(integer\) 4\r\n(.*\r\n){3}7\) \(integer\) 0\r\n")
    type_line(b"sluice.explain 1 user tty")
    terminal.until(rb'"per-user"\r\n')
    type_line(b"quit")
    assert terminal.status() == 0


def test_redis_cli_stat_and_latency(policy_server):
    status, out, _ = cli(policy_server, "-i", "0.01", "-r", "3", "PING")
    assert (status, out) == (0, "PONG\nPONG\nPONG\n")
    status, out, _ = cli(policy_server, "INFO")
    assert status == 0 and "redis_version:" in out


# ---- redis-benchmark -------------------------------------------------------------------------------------------------

def benchmark(server, *words):
    return run(program("redis-benchmark"), "-p", str(server.resp_port), "-q", *words)


@pytest.mark.parametrize("words", [
    ["-n", "2000", "-c", "20", "-t", "ping_inline,ping_mbulk"],
    ["-n", "2000", "-c", "20", "-P", "16", "-t", "ping_inline,ping_mbulk"],
    ["-n", "4000", "-r", "1000000", "SLUICE.CHECK", "key:__rand_int__", "1", "100/60s"],
    ["-n", "20000", "-P", "64", "-r", "1000000", "SLUICE.CHECK", "key:__rand_int__", "1", "100/60s"],
    ["-n", "2000", "-3", "-P", "8", "SLUICE.CHECK", "one", "1", "sliding-log 100/60s", "10/1s", "KEY", "b", "5/1s"],
    ["-n", "2000", "SLUICE.ADMIT", "1", "user", "__rand_int__"],
    ["-n", "2000", "CL.THROTTLE", "key:__rand_int__", "15", "30", "60"],
], ids=["ping", "ping-pipelined", "check", "check-pipelined", "resp3", "admit", "throttle"])
def test_redis_benchmark(policy_server, words):
    """It ends with the first error reply, so a status of 0 says that there was none."""
    status, out, err = benchmark(policy_server, *words)
    assert status == 0 and "requests per second" in out, (out, err)
    assert "Could not fetch server CONFIG" not in out + err


# ---- redis-py --------------------------------------------------------------------------------------------------------

def test_redis_py(policy_server):
    with redis.Redis(port=policy_server.resp_port, client_name="app", db=0) as client:
        assert client.ping() and client.echo("x") == b"x"
        assert client.execute_command("SLUICE.CHECK", b"\x00\xff\r\n", 1, "fixed-window 2/3660d")[:3] == [1, 2, 1]
        pipeline = client.pipeline(transaction=False)
        for _ in range(200):
            pipeline.execute_command("SLUICE.CHECK", "redis-py", 1, "fixed-window 150/3660d")
        assert [reply[0] for reply in pipeline.execute()] == [1] * 150 + [0] * 50
        with pytest.raises(redis.ResponseError):
            client.execute_command("SLUICE.CHECK", "redis-py")
        assert client.info()["loading"] == 0
        assert client.config_get("save") == {"save": ""}


# ---- npm clients -----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["ioredis", "ioredis:2", "ioredis-5", "ioredis-4", "iovalkey", "redis", "redis:2",
                                  "redis-5", "redis-5:3", "redis-4"])
def test_npm_client(policy_server, node_clients, name):
    folder, node = node_clients
    status, out, err = run(node, os.path.join(folder, "run.mjs"), name, str(policy_server.resp_port))
    assert status == 0, err
    seen = json.loads(out)
    assert seen["ping"] == "PONG"
    assert [reply[:3] for reply in seen["checks"]] == [[1, 2, 1], [1, 2, 0], [0, 2, 0]]
    assert seen["checks"][2][3] > 0 and all(len(reply) == 7 for reply in seen["checks"])
    assert seen["peek"][:3] == [0, 3, 1] and seen["refund"][:4] == [1, 2, 1, 0] and seen["reset"] == 1
    assert seen["error"].startswith("ERR ") and "column" in seen["error"]
    assert seen["throttle"] == [0, 16, 15, -1, 2]
    assert seen["explain"][0][:6] == ["per-user", "fixed-window 3/3660d", "user=a%2Cb", 1, 3, 3]
    assert seen["pipelined"] == [1] * 30 + [0] * 20 == seen["sideBySide"]


# ---- who asks --------------------------------------------------------------------------------------------------------

def clients_of(server, door, name=...):
    with server.http() as http:
        told = http.ask("GET", "/v1/figures")[2]
    by_door = {one: [client for client in told["clients"] if client["door"] == one] for one in told["requests"]}
    for one, clients in by_door.items():  # whatever they call themselves, no decision is lost
        for verdict, count in told["requests"][one].items():
            assert sum(client[verdict] for client in clients) == count, (one, verdict)
    return [client for client in by_door[door] if name is ... or client["name"] == name]


@pytest.mark.parametrize("name,said", [("ioredis", "ioredis"), ("redis", "node-redis")])
def test_npm_clients_are_counted_by_the_name_they_give(server, node_clients, name, said):
    folder, node = node_clients
    one = server(policy=POLICY)
    status, _, err = run(node, os.path.join(folder, "run.mjs"), name, str(one.resp_port))
    assert status == 0, err
    with open(os.path.join(folder, "node_modules", name, "package.json"), encoding="utf-8") as file:
        version = json.load(file)["version"]
    counted = clients_of(one, "resp")
    assert {(client["kind"], client["name"], client["version"]) for client in counted} == {("named", said, version)}
    assert sum(client["denied"] for client in counted) > 20


def test_redis_py_and_strangers_are_counted(server):
    one = server(policy=POLICY)
    with redis.Redis(port=one.resp_port) as client, one.resp() as stranger:
        client.execute_command("CLIENT", "SETINFO", "LIB-NAME", "redis-py(app)")
        client.execute_command("CLIENT", "SETINFO", "LIB-VER", "5.0.1")
        client.execute_command("SLUICE.CHECK", "a", 1, "2/1h")
        stranger.call("SLUICE.CHECK", "a", 5, "2/1h")
        named, unnamed = clients_of(one, "resp", "redis-py(app)")[0], clients_of(one, "resp", None)[0]
        assert named == {"door": "resp", "kind": "named", "name": "redis-py(app)", "version": "5.0.1",
                         "connections": 1, "allowed": 1, "denied": 0, "error": 0}
        assert (unnamed["kind"], unnamed["connections"], unnamed["denied"]) == ("unnamed", 1, 1)
        with one.http() as http:
            metrics = http.ask("GET", "/metrics")[2].decode()
        assert 'sluice_client_connections{library="redis-py"} 1\n' in metrics
        assert 'sluice_client_connections{library="unnamed"} 1\n' in metrics


def test_a_user_agent_names_programs_and_not_the_visitors_of_proxies(server):
    one = server(policy=POLICY)
    with one.http() as program_, one.http() as proxy:
        program_.ask("POST", "/v1/admit", b'{"attributes":{"user":"a"}}', {"User-Agent": "shop/2.1 (linux)"})
        program_.ask("POST", "/v1/admit", b'{"attributes":{"user":"a"}}', {"User-Agent": "other/1"})
        proxy.ask("GET", "/v1/auth/nginx", headers={"User-Agent": "Mozilla/5.0", "X-Forwarded-For": "192.0.2.1"})
        shop = clients_of(one, "http", "shop")
        assert [(client["version"], client["connections"], client["allowed"]) for client in shop] == [("2.1", 1, 2)]
        assert {client["name"] for client in clients_of(one, "http")} == {"shop", None}


def test_a_client_of_ever_new_names_takes_no_others_place(server):
    one = server(policy=POLICY, args=("--threads", "1"))
    with one.resp() as kept, one.resp() as hostile:
        kept.call("CLIENT", "SETINFO", "LIB-NAME", "steady")
        kept.call("SLUICE.CHECK", "a", 1, "9/1h")
        for i in range(1000):
            hostile.send(encode("CLIENT", "SETINFO", "LIB-NAME", f"\\x<i>{i}") +
                         encode("CLIENT", "SETINFO", "LIB-VER", i) + encode("SLUICE.CHECK", "b", 1, "9/1h"))
            assert [hostile.read() for _ in range(2)] == [b"OK", b"OK"] and len(hostile.read()) == 7
        counted = clients_of(one, "resp")
        assert len(counted) <= 60
        assert [client for client in counted if client["name"] == "steady"][0]["allowed"] == 1
        assert [client["kind"] for client in counted].count("others") == 1
        with one.http() as http:
            body = http.ask("GET", "/metrics")[2].decode()
        assert "<i>" not in body and body.count("sluice_client_connections{") == 14
    still_serves(one)


# ---- curl, and the headers of real responses -------------------------------------------------------------------------

def curl(server, path, body=None, *words):
    given = [] if body is None else ["--data-binary", "@-"]
    text = json.dumps(body) if isinstance(body, dict) else body or ""
    status, out, err = run(program("curl"), "-sS", "-i", "--max-time", "20", *given, *words,
                           f"http://127.0.0.1:{server.http_port}{path}",
                           stdin=text.encode())
    assert status == 0, err
    head, _, rest = out.partition("\r\n\r\n")
    if head.startswith("HTTP/1.1 100"):
        head, _, rest = rest.partition("\r\n\r\n")
    lines = head.split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(": ")
        headers[name.lower()] = value
    return int(lines[0].split()[1]), headers, rest


def test_curl_is_admitted_and_denied(policy_server):
    ask = {"attributes": {"user": "curl"}, "cost": 2}
    status, headers, body = curl(policy_server, "/v1/admit", ask)
    assert status == 200 and headers["content-type"] == "application/json"
    assert json.loads(body)["remaining"] == 1 and "retry-after" not in headers
    status, headers, body = curl(policy_server, "/v1/admit", ask)
    problem = json.loads(body)
    assert status == 429 and headers["content-type"] == "application/problem+json"
    assert problem["type"] == "https://iana.org/assignments/http-problem-types#quota-exceeded"
    assert problem["violated-policies"] == ["per-user"] and problem["status"] == 429
    assert problem["allowed"] is False and problem["limit"] == "per-user"
    assert int(headers["retry-after"]) == -(-problem["retry_after_ms"] // 1000)
    status, headers, body = curl(policy_server, "/v1/admit", {**ask, "cost": 4})
    assert status == 429 and json.loads(body)["retry_after_ms"] == -1 and "retry-after" not in headers


def test_curl_sends_a_large_body_after_100_continue(policy_server):
    body = json.dumps({"key": "k" * 900, "limits": ["100/1m"], "cost": 1}) + " " * 20000
    status, _, answer = curl(policy_server, "/v1/check", body, "-H", "Expect: 100-continue")
    assert status == 200 and json.loads(answer)["remaining"] == 99


def test_curl_and_what_operators_ask(policy_server):
    for path in ("/healthz", "/readyz"):
        assert curl(policy_server, path)[0] == 200
    status, headers, body = curl(policy_server, "/v1/limits")
    assert status == 200 and "per-user" in body
    status, headers, body = curl(policy_server, "/v1/explain?user=someone")
    assert status == 200 and json.loads(body)["limits"][0]["key"] == "user=someone"
    assert curl(policy_server, "/nosuch")[0] == 404
    assert curl(policy_server, "/v1/check")[0] == 405
    status, headers, _ = curl(policy_server, "/v1/check", "{")
    assert status == 400 and headers["content-type"] == "application/problem+json"
    assert curl(policy_server, "/v1/check", "x" * 1000000)[0] == 413


def parsed(node_clients, values):
    """Each value as an RFC 9651 List: [(name, {parameters})], names held to be Strings."""
    folder, node = node_clients
    status, out, err = run(node, os.path.join(folder, "headers.mjs"), stdin=json.dumps(values).encode())
    assert status == 0, err
    lists = json.loads(out)
    assert all(kind == "string" for members in lists for kind, _, _ in members)
    return [[(item, parameters) for _, item, parameters in members] for members in lists]


LIMITS = ["fixed-window 100/1m", "10/1500ms", "sliding-log 3/1h", "sliding-buckets 7/1d precision 1h",
          "token-bucket 10/1s burst 100", "token-bucket 1/1m burst 5", "leaky-bucket 10/1s queue 49",
          "fixed-window 4294967295/3660d"]


def test_rate_limit_headers_are_structured_fields(shared_server, node_clients):
    """q and w of every limit, r and t of the one that decided; parsed by a parser that is not ours."""
    at = 1728000000000
    with shared_server.http() as client:
        _, fresh, _ = client.post("/v1/check", {"key": "h", "limits": LIMITS, "at": at, "peek": True})
        _, spent, _ = client.post("/v1/check", {"key": "h", "limits": LIMITS, "at": at, "cost": 3})
        _, denied, body = client.post("/v1/check", {"key": "h", "limits": LIMITS, "at": at, "cost": 3})
    fields = [dict(headers)[name] for headers in (fresh, spent, denied) for name in ("RateLimit-Policy", "RateLimit")]
    policy, decided, policy2, decided2, policy3, denying = parsed(node_clients, fields)
    assert policy == policy2 == policy3
    names = ["fixed-window 100/1m", "sliding-window 10/1500ms", "sliding-log 3/1h",
             "sliding-buckets 7/1d precision 1h edge count", "token-bucket 10/1s burst 100",
             "token-bucket 1/1m burst 5", "leaky-bucket 10/1s queue 49", "fixed-window 4294967295/3660d"]
    quotas = [100, 10, 3, 7, 100, 5, 50, 4294967295]
    windows = [60, 2, 3600, 86400, 10, 300, 5, 3660 * 86400]
    assert policy == [(n, {"q": q, "w": w}) for n, q, w in zip(names, quotas, windows)]
    assert decided == [("sliding-log 3/1h", {"r": 3})]
    assert decided2 == [("sliding-log 3/1h", {"r": 0, "t": 3600})]
    assert sorted(denying) == [("sliding-log 3/1h", {"r": 0, "t": 3600}),
                               ("token-bucket 1/1m burst 5", {"r": 2, "t": 60})]
    assert body["violated-policies"] == ["sliding-log 3/1h", "token-bucket 1/1m burst 5"]


def test_rate_limit_t_is_when_remaining_grows(shared_server, node_clients):
    """t is the wait until one more unit is free, not until all are; rounded up to seconds; absent when all are."""
    at, values, expected = 1728000000000, [], []
    steps = [("10/1m", 10, 66), ("fixed-window 10/1m", 4, 60), ("token-bucket 10/1s", 10, 1),
             ("token-bucket 1/1m burst 9", 2, 60), ("sliding-log 10/1m", 1, 60),
             ("sliding-buckets 10/1m precision 10s edge weighted", 10, 61), ("leaky-bucket 1/10s queue 5", 1, 10),
             ("fixed-window 10/1m", 0, None), ("10/1m", 1, 66)]
    with shared_server.http() as client:
        for number, (limit, cost, wait) in enumerate(steps):
            _, headers, _ = client.post("/v1/check", {"key": f"t{number}", "limits": [limit], "at": at, "cost": cost})
            values.append(dict(headers)["RateLimit"])
            expected.append(wait)
    seen = [members[0][1].get("t") for members in parsed(node_clients, values)]
    expected[-1] = 120  # 1 of 10 used: the previous window must weigh nothing before 10 are free again
    assert seen == expected


def test_names_with_quotes_survive_in_headers(server, node_clients):
    one = server('limits:\n  - {name: "say \\"hi\\" \\\\ now", key: ip, limit: fixed-window 5/1h}\n')
    with one.http() as client:
        _, headers, _ = client.post("/v1/admit", {"attributes": {"ip": "::1"}})
        _, none, _ = client.post("/v1/admit", {"attributes": {"user": "x"}})
    assert "RateLimit" not in dict(none) and "RateLimit-Policy" not in dict(none)
    headers = dict(headers)
    assert parsed(node_clients, [headers["RateLimit-Policy"]]) == [[('say "hi" \\ now', {"q": 5, "w": 3600})]]


def test_clients_leave_the_server_whole(policy_server):
    still_serves(policy_server)
