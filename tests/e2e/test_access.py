"""Who may do what, at a running server: real clients with and without AUTH and TLS, the words of a real Redis, reloads,
guessing, and that no secret ever comes out again."""

import base64
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import threading

import pytest
import redis

from harness import DEADLINE_S, ROOT, Closed, Http, Resp, RespError, Server, encode, raw_exchange, wait_until
from ports import free_port
from terminal import Terminal

# What must never be seen again.
PASSWORD, WRONG = "correct-horse-battery", "incorrect-zebra-battery"
ROLES = ("check", "read", "admin")


def program(name):
    path = shutil.which(name)
    assert path, f"{name} is not installed"
    return path


def run(*command, stdin=b"", **environment):
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=DEADLINE_S, check=False,
                          env={**os.environ, **environment})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Users:
    """Users as `sluice password` and `sluice token` make them: one of each kind for each role."""

    def __init__(self, binary):
        self.secrets, lines, self.hashes = {}, [], []
        for role in ROLES:
            name = f"{role}-person"
            status, out, err = run(binary, "password", name, "--role", role, stdin=(PASSWORD + role).encode() + b"\n")
            assert (status, err) == (0, ""), err
            self.secrets[name] = PASSWORD + role
            lines.append(out.strip())
            name = f"{role}-program"
            status, out, err = run(binary, "token", name, "--role", role)
            assert (status, err) == (0, ""), err
            token, line = out.strip().split("\n")
            self.secrets[name] = token
            lines.append(line)
        self.hashes = [part for line in lines for part in re.findall(r"[0-9a-f]{32,}", line)]
        self.yaml = "users:\n" + "".join(f"  {line}\n" for line in lines)


@pytest.fixture(scope="module")
def users(sluice_bin):
    return Users(sluice_bin)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificate")
    key, cert = str(folder / "key.pem"), str(folder / "cert.pem")
    subprocess.run([program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                    "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    return cert, key


LIMITS = """
limits:
  - name: per-user
    key: user
    limit: fixed-window 3/3660d
"""


def listen(tls):
    one = '{address: "127.0.0.1:0", tls: true}' if tls else '"127.0.0.1:0"'
    return f"listen: {{resp: {one}, http: {one}}}\n"


class Place:
    """A server, and how a client gets in: certificate to trust, name, secret."""

    def __init__(self, server, cert, user, secret):
        self.server, self.cert, self.user, self.secret = server, cert, user, secret
        self.port = server.resp_port


@pytest.fixture(scope="module", params=["plain", "auth", "tls", "tls+auth"])
def place(request, sluice_bin, users, certificate):
    tls, auth = "tls" in request.param, "auth" in request.param
    cert, key = certificate
    policy = listen(tls) + (f"tls: {{certificate: {cert}, key: {key}}}\n" if tls else "")
    policy += (users.yaml if auth else "") + LIMITS
    server = Server(sluice_bin, policy, listen=())
    user = "admin-person" if auth else None
    yield Place(server, cert if tls else None, user, users.secrets.get(user))
    server.stop()


# ---- real clients ----------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ["ioredis", "ioredis:2", "ioredis-5", "ioredis-4", "iovalkey", "redis", "redis:2",
                                  "redis-5", "redis-5:3", "redis-4"])
def test_npm_client(place, node_clients, name):
    folder, node = node_clients
    environment = {"SLUICE_USER": place.user, "SLUICE_SECRET": place.secret} if place.user else {}
    if place.cert:
        environment["SLUICE_CA"] = place.cert
    status, out, err = run(node, os.path.join(folder, "run.mjs"), name, str(place.port), **environment)
    assert status == 0, err
    seen = json.loads(out)
    assert seen["ping"] == "PONG"
    assert [reply[:3] for reply in seen["checks"]] == [[1, 2, 1], [1, 2, 0], [0, 2, 0]]
    assert seen["reset"] == 1 and seen["error"].startswith("ERR ")
    assert seen["pipelined"] == [1] * 30 + [0] * 20 == seen["sideBySide"]


@pytest.mark.parametrize("protocol", [[], ["-3"]], ids=["resp2", "resp3"])
def test_redis_cli(place, protocol):
    words = [program("redis-cli"), "-p", str(place.port), *protocol]
    words += ["--tls", "--cacert", place.cert] if place.cert else []
    words += ["--user", place.user] if place.user else []
    environment = {"REDISCLI_AUTH": place.secret} if place.user else {}
    key = "cli" + "".join(protocol)
    status, out, err = run(*words, "SLUICE.CHECK", key, "1", "fixed-window 2/3660d", **environment)
    assert (status, err) == (0, ""), (out, err)
    assert out.split()[:3] == ["1", "2", "1"]
    status, out, _ = run(*words, "CLIENT", "INFO", **environment)
    assert f" user={place.user or 'default'} " in out and f" resp={3 if protocol else 2} " in out
    status, out, _ = run(*words, "SLUICE.RESET", key, "fixed-window 2/3660d", **environment)
    assert (status, out) == (0, "1\n")


def test_redis_py(place):
    options = {"ssl": True, "ssl_ca_certs": place.cert} if place.cert else {}
    with redis.Redis(port=place.port, username=place.user, password=place.secret, client_name="app",
                     **options) as client:
        assert client.ping()
        assert client.execute_command("SLUICE.CHECK", "py", 1, "fixed-window 2/3660d")[:3] == [1, 2, 1]
        pipeline = client.pipeline(transaction=False)
        for _ in range(20):
            pipeline.execute_command("SLUICE.CHECK", "py-many", 1, "fixed-window 15/3660d")
        assert [reply[0] for reply in pipeline.execute()] == [1] * 15 + [0] * 5
    if place.user:
        with redis.Redis(port=place.port, username=place.user, password=WRONG, **options) as client:
            with pytest.raises(redis.RedisError, match="WRONGPASS"):
                client.ping()
        with redis.Redis(port=place.port, **options) as client:
            with pytest.raises(redis.RedisError, match="Authentication required"):
                client.ping()


@pytest.fixture(scope="module")
def hiredis_client(tmp_path_factory):
    binary = str(tmp_path_factory.mktemp("hiredis") / "client")
    source = os.path.join(ROOT, "tests", "e2e", "hiredis_client.c")
    subprocess.run([program("gcc"), "-O1", "-Wall", "-Werror", source, "-lhiredis", "-o", binary], check=True)
    return binary


def test_hiredis(place, hiredis_client):
    """0.14, which Debian 12 has, knows no TLS: there it is refused, and the server is none the worse."""
    words = [place.user, place.secret] if place.user else []
    status, out, _ = run(hiredis_client, str(place.port), *words)
    if place.cert:
        assert "broken" in out
        return
    assert status == 0
    assert out.split("\n")[-5:] == ["1 2 1 ", "1 2 0 ", "0 2 0 ", "1", ""]
    assert out.startswith("OK\n" if place.user else "1 2 1 ")


def test_redis_benchmark(place):
    words = ["--user", place.user, "-a", place.secret] if place.user else []
    words += ["--tls", "--cacert", place.cert] if place.cert else []
    status, out, err = run(program("redis-benchmark"), "-p", str(place.port), "-q", "-n", "2000", "-c", "20", *words,
                           "SLUICE.CHECK", "key:__rand_int__", "1", "100/60s")
    assert status == 0 and "requests per second" in out, (out, err)


def test_our_own_client(place, sluice_bin):
    words = ["--server", f"localhost:{place.port}"]
    words += ["--tls", "--ca", place.cert] if place.cert else []
    words += ["--user", place.user] if place.user else []
    environment = {"SLUICE_PASSWORD": place.secret} if place.user else {}
    assert run(sluice_bin, "check", "own", "fixed-window 1/3660d", *words, **environment)[0] == 0
    assert run(sluice_bin, "check", "own", "fixed-window 1/3660d", *words, **environment)[0] == 1
    status, out, _ = run(sluice_bin, "reset", "own", "fixed-window 1/3660d", *words, **environment)
    assert (status, out) == (0, "forgot 1 counter\n")
    if place.user:
        status, _, err = run(sluice_bin, "check", "own", "1/1m", *words, SLUICE_PASSWORD=WRONG)
        assert status == 2 and "WRONGPASS" in err and WRONG not in err
        status, _, err = run(sluice_bin, "check", "own", "1/1m", *words)
        assert status == 2 and "--user needs a secret in the environment variable SLUICE_PASSWORD" in err
        status, _, err = run(sluice_bin, "check", "own", "1/1m", "--server", words[1], *words[2:-2])
        assert status == 2 and err.endswith(
            "NOAUTH Authentication required. Set SLUICE_PASSWORD to a token, or to the password of --user\n"), err
    if place.cert:
        status, _, err = run(sluice_bin, "check", "own", "1/1m", "--server", words[1], "--tls")
        assert status == 2 and "self-signed" in err.replace("self signed", "self-signed")
        status, _, err = run(sluice_bin, "check", "own", "1/1m", "--server", f"127.0.0.2:{place.port}", "--tls",
                             "--ca", place.cert)
        assert status == 2
        status, _, err = run(sluice_bin, "check", "own", "1/1m", "--server", words[1])
        assert status == 2 and "closed the connection" in err


def test_curl(place):
    scheme = "https" if place.cert else "http"
    words = [program("curl"), "-sS", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20"]
    words += ["--cacert", place.cert] if place.cert else []
    url = f"{scheme}://127.0.0.1:{place.server.http_port}/metrics"
    configuration = f'user = "{place.user}:{place.secret}"\n'.encode() if place.user else b""
    status, out, err = run(*words, "-K", "-", url, stdin=configuration)
    assert (status, out) == (0, "200"), err
    status, out, err = run(*words, url)
    assert (status, out) == (0, "401" if place.user else "200"), err


# ---- the words of a real Redis ---------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def redis_with_users(tmp_path_factory):
    port = free_port()
    process = subprocess.Popen([program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                                "--dir", str(tmp_path_factory.mktemp("redis"))], stdout=subprocess.DEVNULL)

    def answers():
        try:
            return raw_exchange(port, b"PING\r\n") == b"+PONG\r\n"
        except OSError:
            return False

    wait_until(answers, "redis-server did not answer")
    with Resp(port) as client:
        client.call("ACL", "SETUSER", "person", "on", ">" + PASSWORD, "+@connection", "+command", "-config", "-time")
        client.call("CONFIG", "SET", "requirepass", "another")
    yield port
    process.terminate()
    process.wait(DEADLINE_S)


@pytest.mark.parametrize("talk", [
    ["PING", "CLIENT ID", "CONFIG GET save", "COMMAND COUNT", "INFO"],
    ["NOSUCH a", "CLIENT", "CLIENT NOSUCH", "ECHO", "PING a b c"],
    ["HELLO", "HELLO 3", "HELLO 2 SETNAME x", "HELLO 9", "HELLO x", "HELLO 3 FOO", "HELLO 3 AUTH person"],
    ["AUTH", "AUTH person x", "AUTH nobody x", "AUTH x y z", "AUTH x", "AUTH default x"],
    ["AUTH person " + PASSWORD, "PING", "AUTH person x", "PING", "RESET", "PING"],
    ["HELLO 3 AUTH person x", "PING", "HELLO 3 SETNAME a AUTH nobody y", "CLIENT GETNAME"],
    ["AUTH another", "PING", "HELLO 2 AUTH person y", "PING"],
    ["RESET", "QUIT", "PING"],
    ["POST / HTTP/1.1", "PING"],
    ["Host: x", "PING"],
], ids=lambda talk: talk[0].replace(PASSWORD, "right"))
def test_words_of_redis(sluice_bin, server, redis_with_users, talk):
    """The same bytes to both, the same bytes from both."""
    line = run(sluice_bin, "password", "person", stdin=PASSWORD.encode())[1].strip()
    other = run(sluice_bin, "password", "default", "--role", "admin", stdin=b"another")[1].strip()
    one = server(f"users:\n  {line}\n  {other}\n")
    data = b"".join(f"{words}\r\n".encode() for words in talk)
    assert raw_exchange(one.resp_port, data) == raw_exchange(redis_with_users, data)


def test_no_permission_in_the_words_of_redis(server, users, redis_with_users):
    one = server(users.yaml)
    with one.resp() as client, Resp(redis_with_users) as person:
        client.call("AUTH", "check-person", users.secrets["check-person"])
        person.call("AUTH", "person", PASSWORD)
        client.send(encode("SLUICE.RESET", "k", "1/1m"))
        person.send(encode("CONFIG", "GET", "save"))
        assert str(client.read()).replace("sluice.reset", "config|get") == str(person.read())


@pytest.mark.parametrize("data", [b"*11\r\n", b"*1\r\n$16385\r\n", b"*1000000\r\n", b"*2\r\n$4\r\nAUTH\r\n$20000\r\n"])
def test_guests_have_small_bounds(server, users, redis_with_users, data):
    assert raw_exchange(server(users.yaml).resp_port, data) == raw_exchange(redis_with_users, data)


# ---- guessing --------------------------------------------------------------------------------------------------------

def guess(port, count):
    """Logs in wrongly, each time on a connection of its own. Returns what was said."""
    said = []
    for i in range(count):
        with Resp(port) as client:
            client.send(encode("AUTH", "admin-person", f"{WRONG}{i}"))
            said.append(str(client.read()))
    return said


def test_guessing_ends_and_locks_nobody_out(server, users):
    one = server(users.yaml)
    name = "admin-person"
    with one.resp() as client:
        assert client.call("AUTH", name, users.secrets[name]) == b"OK"
    said = []
    guessers = [threading.Thread(target=lambda: said.extend(guess(one.resp_port, 25))) for _ in range(2)]
    for thread in guessers:
        thread.start()
    for _ in range(50):  # all the while
        with one.resp() as client:
            assert client.call("AUTH", name, users.secrets[name]) == b"OK"
    for thread in guessers:
        thread.join()
    wrong = [text for text in said if text == "WRONGPASS invalid username-password pair or user is disabled."]
    too_many = re.compile(r"ERR too many failed logins from this address: retry in \d+ s")
    late = [text for text in said if too_many.fullmatch(text)]
    assert len(wrong) + len(late) == 50 and 1 <= len(wrong) <= 12
    with one.http() as client:
        basic = base64.b64encode(f"{name}:{WRONG}".encode()).decode()
        status, headers, body = client.ask("GET", "/v1/limits", headers={"Authorization": "Basic " + basic})
        # 10 a minute by sliding-window: beyond the next minute's begin it may take a tenth of that
        assert status == 429 and 1 <= int(dict(headers)["Retry-After"]) <= 66 and body["status"] == 429
        token = users.secrets["read-program"]
        assert client.ask("GET", "/v1/limits", headers={"Authorization": "Bearer " + token})[0] == 200
    with one.resp() as client:
        assert client.call("AUTH", name, users.secrets[name]) == b"OK"


# ---- roles at a running server ---------------------------------------------------------------------------------------

def ask(server, method, path, secret=None, user=None, **headers):
    with server.http() as client:
        if user is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{secret}".encode()).decode()
        elif secret is not None:
            headers["Authorization"] = "Bearer " + secret
        status, given, body = client.ask(method, path, b"{}" if method == "POST" else None, headers)
        return status, dict(given), body


@pytest.mark.parametrize("role", ROLES)
def test_roles(server, users, role):
    one = server(users.yaml + LIMITS)
    wanted = {("GET", "/metrics"): "read", ("GET", "/v1/top"): "read", ("GET", "/v1/figures"): "read",
              ("GET", "/v1/limits"): "check read", ("GET", "/v1/explain?user=a"): "check read",
              ("POST", "/v1/check"): "check", ("POST", "/v1/admit"): "check", ("POST", "/v1/reset"): "admin",
              ("POST", "/v1/reload"): "admin", ("GET", "/v1/overrides"): "admin",
              ("GET", "/v1/overrides/1%2F1m/k"): "admin", ("DELETE", "/v1/overrides/1%2F1m/k"): "admin"}
    for (method, path), roles in wanted.items():
        for kind in ("person", "program"):
            name = f"{role}-{kind}"
            status, _, body = ask(one, method, path, users.secrets[name], name)
            assert (status == 403) == (role != "admin" and role not in roles), (method, path, name, status, body)
            if status == 403:
                assert "requires the role " + roles.replace(" ", " or ") in body["detail"]
        status, headers, _ = ask(one, method, path)
        assert status == 401 and headers["WWW-Authenticate"] == 'Bearer realm="sluice"'
    for path in ("/healthz", "/readyz", "/healthcheck", "/"):
        assert ask(one, "GET", path)[0] == 200


def test_a_page_of_another_site_may_not_reset(server):
    one = server(LIMITS)
    own = f"127.0.0.1:{one.http_port}"
    body = {"key": "k", "limits": ["1/1m"]}
    for headers, refused in [({}, False), ({"Origin": f"http://{own}"}, False),
                             ({"Origin": "https://evil.example"}, True), ({"Origin": "null"}, True),
                             ({"Sec-Fetch-Site": "cross-site"}, True),
                             ({"Origin": "http://evil.example", "Host": "evil.example"}, True)]:
        with one.http() as client:
            status, _, answer = client.ask("POST", "/v1/reset", body, headers)
            assert (status == 403) == refused, (headers, answer)


def test_the_log_says_who_changed_a_quota(server, users):
    """Of requests that come in one write each is of whoever it says: one without Authorization is not of the one
    before it."""
    one = server("anonymous: admin\n" + users.yaml + LIMITS)
    pair = base64.b64encode(f"admin-person:{users.secrets['admin-person']}".encode()).decode()

    def put(key, lines):
        body = '{"limit": "fixed-window 9/3660d"}'
        return (f"PUT /v1/overrides/per-user/user={key} HTTP/1.1\r\nHost: localhost\r\n{lines}"
                f"Content-Length: {len(body)}\r\n\r\n{body}").encode()

    said = raw_exchange(one.http_port, put("one", f"Authorization: Basic {pair}\r\n") + put("two", ""))
    assert said.count(b"HTTP/1.1 200 OK") == 2, said
    for key, who in (("one", "admin-person"), ("two", "anybody")):
        end = f" override set: limit 'per-user' key 'user={key}' fixed-window 9/3660d by {who}"
        one.stderr.wait_for(lambda line, end=end: line.endswith(end))


# ---- reloads ---------------------------------------------------------------------------------------------------------

def test_a_reload_takes_a_login_away(sluice_bin, server, users):
    one = server(users.yaml)
    secret = users.secrets["admin-person"]
    with one.resp() as kept, one.resp() as lost:
        kept.call("AUTH", "check-program", users.secrets["check-program"])
        lost.call("HELLO", 3, "AUTH", "admin-person", secret)
        line = run(sluice_bin, "password", "admin-person", stdin=b"a new one")[1].strip()
        text = re.sub(r'- \{name: "admin-person".*', lambda _: line, users.yaml)
        with open(one.policy_file, "w", encoding="utf-8") as f:
            f.write(text)
        one.process.send_signal(signal.SIGHUP)

        def is_lost():
            lost.send(encode("PING"))
            reply = lost.read()
            return isinstance(reply, RespError) and str(reply) == "NOAUTH Authentication required."

        wait_until(is_lost, "the login outlived its password")
        assert kept.call("PING") == b"PONG"
        lost.send(encode("AUTH", "admin-person", secret))
        assert str(lost.read()).startswith("WRONGPASS")
        assert lost.call("AUTH", "admin-person", "a new one") == b"OK"


# ---- no secret comes out again ---------------------------------------------------------------------------------------

def everything_said(one, users):
    """What a server can be made to say, to people of all roles, after logins right and wrong on both doors."""
    said = []
    for name, secret in users.secrets.items():  # verified first, so that the failures below lock nobody out
        with one.resp() as client:
            said.append(repr(client.call("AUTH", name, secret)))
    for name, secret in users.secrets.items():
        with one.resp() as client:
            for words in (["AUTH", name, WRONG], ["AUTH", WRONG], ["HELLO", "3", "AUTH", name, WRONG],
                          ["AUTH", name, secret, "AUTH"], ["AUTH", name, secret], ["HELLO", "3", "AUTH", name, secret],
                          ["HELLO", "3", "AUTH", name, secret, secret[:3]], ["CLIENT", "LIST"], ["CLIENT", "INFO"],
                          ["INFO"], ["COMMAND"], ["COMMAND", "DOCS"], ["CONFIG", "GET", "*"], ["SLUICE.TOP"],
                          ["SLUICE.TAIL", "?"], ["SLUICE.RELOAD"]):
                client.send(encode(*words))
                said.append(repr(client.read()))
        for path in ("/metrics", "/v1/limits", "/v1/figures?history=1", "/v1/top", "/", "/nosuch"):
            for pair in ((secret, name), (secret, None), (WRONG, name), (WRONG, None)):
                said.append(repr(ask(one, "GET", path, *pair)))
        said.append(repr(ask(one, "POST", "/v1/reload", secret, name)))
        said.append(repr(ask(one, "POST", "/v1/check", secret, name)))
    return said


@pytest.mark.parametrize("log", ["text", "json"])
def test_no_secret_is_ever_said(server, users, log):
    one = server(users.yaml + f"log: {{format: {log}}}\n" + LIMITS)
    said = everything_said(one, users)
    with open(one.policy_file, "w", encoding="utf-8") as f:  # a mistake beside a secret, and a secret in clear
        f.write(users.yaml.replace("roles: [check]", "roles: [chekc]")
                + f"  - {{name: x, password: {PASSWORD}}}\n  - {{name: y, token: {PASSWORD}, role: read}}\n")
    said.append(repr(ask(one, "POST", "/v1/reload", users.secrets["admin-program"])))
    one.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "chekc" in one.stderr.text(), "the reload was not spoken of")
    with open(f"/proc/{one.process.pid}/cmdline", "rb") as f:
        said.append(repr(f.read()))
    one.stop()
    text = "\n".join(said) + one.stderr.text()
    assert "chekc" in text and "user=admin-person" in text  # it is the right text that is searched
    for secret in [PASSWORD, WRONG, *users.secrets.values(), *users.hashes]:
        assert secret not in text, f"{secret} was said"
        assert base64.b64encode(secret.encode()).decode().rstrip("=")[:-2] not in text


def test_lint_says_no_secret(sluice_bin, users, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(users.yaml + f"  - {{name: x, pasword: {PASSWORD}}}\n  - {PASSWORD}\n  - {{name: z, token: 1}}\n")
    status, out, err = run(sluice_bin, "lint", str(path))
    assert status != 0
    for secret in [PASSWORD, *users.hashes]:
        assert secret not in out + err


# ---- sluice password at a terminal -----------------------------------------------------------------------------------

def typed(binary, *answers):
    """Runs `sluice password` at a terminal; types each answer when asked. Returns its status and all it showed."""
    terminal, seen = Terminal([binary, "password", "someone"]), b""
    for asked, answer in zip((b"password: ", b"once more: "), answers):
        seen += terminal.until(asked).string
        terminal.type(answer)
    status = terminal.status()
    return status, (seen + terminal.seen).decode()


def test_a_password_at_a_terminal_is_not_shown(sluice_bin):
    status, seen = typed(sluice_bin, b"hunter2\n", b"hunter2\n")
    assert status == 0 and "hunter2" not in seen
    assert re.search(r'- \{name: "someone", password: "pbkdf2-sha256:\d+:[0-9a-f]{32}:[0-9a-f]{64}", '
                     r'roles: \[check\]\}', seen)
    status, seen = typed(sluice_bin, b"hunter2\n", b"hunter3\n")
    assert status == 2 and "not the same" in seen and "hunter" not in seen
    status, seen = typed(sluice_bin, b"hunt\x03")
    assert status == 2 and "interrupted" in seen and "hunt" not in seen


@pytest.mark.parametrize("stdin, says", [(b"", "empty"), (b"\n", "empty"), (b"x" * 1025, "at most 1024 bytes"),
                                         (b"a\0b\n", "NUL")],
                         ids=["none", "empty", "long", "NUL"])
def test_bad_passwords(sluice_bin, stdin, says):
    status, out, err = run(sluice_bin, "password", stdin=stdin)
    assert (status, out) == (2, "") and says in err


def test_bad_users(sluice_bin):
    for verb in ("password", "token"):
        for words in (["a b"], ["a:b"], ["x" * 65], ["a", "--role", "root"], ["a", "--role", ""], ["a", "b"]):
            status, out, err = run(sluice_bin, verb, *words, stdin=b"x")
            assert (status, out) == (2, "") and "expected" in err
    quoted = run(sluice_bin, "token", 'say"hi\\')[1]
    assert '{name: "say\\"hi\\\\", token: ' in quoted
