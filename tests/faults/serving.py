"""A server whose calls can be made to fail, and what clients say to it at each door.

A script asks in a fixed order, by a key of its own, and notes each answer. What it notes while calls fail is
held against what it noted before: an answer is the same one, or an error that says so, or the connection was ended.
"""

import os
import re
import ssl
import subprocess
import sys
import tempfile

from faults import ENVIRONMENT, PROGRAM, ROOT

sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
import harness  # noqa: E402
import rls  # noqa: E402
import spop  # noqa: E402

ANSWER_S, WAIT_S = harness.DEADLINE_S, 1

LIMITS = """
limits:
  - {name: per-user, key: user, limit: 5/1w, optional: true}
  - {name: logins, when: {path: /login*}, key: user, limit: sliding-log 7/1w, optional: true}
"""
DOORS = """
listen:
  resp: [127.0.0.1:0, {address: 127.0.0.1:0, tls: true}]
  http: 127.0.0.1:0
  grpc: 127.0.0.1:0
  spop: 127.0.0.1:0
"""
RATELIMIT = """
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: week, requests_per_unit: 5}
"""
TROUBLE = (OSError, harness.Closed, ConnectionError)


class Bad(Exception):
    """Something that may never be, whatever fails."""


class Noted:
    """What a client was told, in order; whatever ends the script early is noted as well."""

    def __init__(self, key):
        self.key, self.said, self.charged, self.asked = key, [], 0, 0

    def add(self, what, value):
        self.said.append((what, value))


def certificates(folder):
    """A certificate of this test's own."""
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *files, *name],
                   cwd=folder, check=True, capture_output=True)


class Faulted:
    """`sluice serve`, started in a folder with its policy; the control may be armed before, or while it runs."""

    def __init__(self, folder, control, argv=(), threads=1):
        self.folder, self.control = folder, control
        environment = {**ENVIRONMENT, "FAULTS": control.file.name}
        self.process = subprocess.Popen([PROGRAM, "serve", "-c", "policy.yaml", "--threads", str(threads), *argv],
                                        cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.stderr = harness.Lines(self.process.stderr)

    def is_ready(self, seconds=ANSWER_S):
        """True once it listens; False where it ended instead."""
        with self.stderr.changed:
            done = self.stderr.changed.wait_for(
                lambda: self.stderr.ended or any(map(harness.is_up, self.stderr.lines)), seconds)
            if not done:
                self.process.kill()
                raise Bad("neither ready nor ended: " + repr(self.stderr.lines))
            return any(map(harness.is_up, self.stderr.lines))

    def port(self, door, number=0):
        found = [re.search(rf"^sluice: {door} on 127\.0\.0\.1:(\d+)", line) for line in self.stderr.lines]
        ports = [int(m.group(1)) for m in found if m]
        if number >= len(ports):
            raise Bad(f"it is ready, and has not said where {door} is")
        return ports[number]

    def end(self):
        """SIGTERM: its status, whatever it was before."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            status = self.process.wait(ANSWER_S * 2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Bad("SIGTERM did not end it: " + self.stderr.text()) from None
        self.stderr.thread.join(ANSWER_S)
        return status


def folder_of(policy, path=None):
    """A folder with a policy, a certificate and files of envoyproxy/ratelimit."""
    path = path or tempfile.mkdtemp(prefix="sluice-faults-")
    os.makedirs(os.path.join(path, "envoy"))
    with open(os.path.join(path, "envoy", "shop.yaml"), "w", encoding="utf-8") as file:
        file.write(RATELIMIT)
    write_policy(path, policy)
    certificates(path)
    return path


def write_policy(path, text):
    with open(os.path.join(path, "policy.new"), "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(os.path.join(path, "policy.new"), os.path.join(path, "policy.yaml"))


def policy(store="{memory: 1MiB}", limits=LIMITS):
    tls = "tls: {certificate: cert.pem, key: key.pem}\n"
    return DOORS + tls + f"envoy: {{config: envoy}}\nstore: {store}\n" + limits


# ---- scripts --------------------------------------------------------------------------------------------------------


def noted_reply(noted, what, reply, charge=0):
    if isinstance(reply, harness.RespError):
        if not str(reply):
            raise Bad(f"{what}: an error without a word")
        noted.add(what, "error")
        return
    if charge and reply[0] == 1:
        noted.charged += charge
    noted.add(what, [*reply[:3], *reply[6:]] if isinstance(reply, list) and len(reply) >= 7 else
              len(reply) if isinstance(reply, list) else type(reply).__name__)


def ask_resp(noted, client):
    for what, words, charge in (("check", ("SLUICE.CHECK", noted.key, 1, "5/1w"), 1),
                                ("two", ("SLUICE.CHECK", noted.key, 1, "sliding-log 6/1w", "token-bucket 9/1w"), 0),
                                ("admit", ("SLUICE.ADMIT", 1, "user", noted.key, "path", "/login"), 0),
                                ("explain", ("SLUICE.EXPLAIN", 1, "user", noted.key, "path", "/login"), 0),
                                ("info", ("INFO",), 0), ("top", ("SLUICE.TOP", "DENIED", "COUNT", 5), 0),
                                ("wrong", ("SLUICE.CHECK", noted.key), 0)):
        noted.asked += charge
        client.send(harness.encode(*words))
        noted_reply(noted, what, client.read(), charge)
    noted.asked += 2
    client.send(harness.encode("SLUICE.CHECK", noted.key, 1, "5/1w") * 2)
    noted_reply(noted, "first of a batch", client.read(), 1)
    noted_reply(noted, "second of a batch", client.read(), 1)


def script_resp(server, noted):
    with harness.Resp(server.port("resp"), noted.answer_s) as client:
        ask_resp(noted, client)


def script_tls(server, noted):
    context = ssl.create_default_context(cafile=os.path.join(server.folder, "cert.pem"))
    client = harness.Resp(server.port("resp", 1), noted.answer_s)
    with client:
        client.sock = context.wrap_socket(client.sock, server_hostname="127.0.0.1")
        ask_resp(noted, client)


def script_http(server, noted):
    with harness.Http(server.port("http"), noted.answer_s) as client:
        for what, method, path, body, charge in (
                ("check", "POST", "/v1/check", {"key": noted.key, "limits": ["5/1w"]}, 1),
                ("admit", "POST", "/v1/admit", {"attributes": {"user": noted.key, "path": "/login"}}, 0),
                ("limits", "GET", "/v1/limits", None, 0), ("metrics", "GET", "/metrics", None, 0),
                ("explain", "GET", f"/v1/explain?user={noted.key}&path=/login", None, 0),
                ("top", "GET", "/v1/top", None, 0), ("ready", "GET", "/readyz", None, 0),
                ("page", "GET", "/", None, 0), ("proxy", "GET", "/v1/auth/nginx", None, 0),
                ("envoy", "POST", "/json", {"domain": "shop", "descriptors": [
                    {"entries": [{"key": "user", "value": noted.key}]}]}, 0),
                ("wrong", "POST", "/v1/check", "{", 0)):
            noted.asked += charge
            status, headers, said = client.ask(method, path, body)
            if status >= 500 and not said:
                raise Bad(f"{what}: {status} and no word")
            if status >= 500:
                noted.add(what, "error")
                continue
            if charge and said["allowed"]:
                noted.charged += charge
            noted.add(what, (status, said.get("remaining") if isinstance(said, dict) else bool(said)))


def script_grpc(server, noted):
    import grpc
    try:
        with rls.Client(f"127.0.0.1:{server.port('grpc')}") as client:
            for what in ("first", "second"):
                answer = client.ask("shop", [("user", noted.key)], timeout=noted.answer_s)
                if answer.overall_code == rls.OVER_LIMIT and not answer.statuses:  # there was no room to read it
                    noted.add(what, "error")
                    continue
                noted.add(what, (answer.overall_code, [one.limit_remaining for one in answer.statuses]))
            noted.add("health", client.check())
    except grpc.RpcError as error:
        if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
            raise TimeoutError from None
        noted.add("end", "error")


def script_spop(server, noted):
    client = None
    try:
        client = spop.Spop(server.port("spop"), timeout=noted.answer_s)
        client.socket.settimeout(noted.answer_s)
        for what in ("first", "second"):
            said = client.ask("admit", {"user": noted.key, "path": "/login"})
            noted.add(what, (said.get("allowed"), said.get("remaining")))
    except (AssertionError, TypeError, IndexError):  # it said goodbye where an answer was due, or half of one
        noted.add("end", "error")
    finally:
        client and client.close()


SCRIPTS = {"resp": script_resp, "tls": script_tls, "http": script_http, "grpc": script_grpc, "spop": script_spop}


def run_script(server, door, key, can_wait=False):
    """What a client is told at a door. No answer in time is never right, but where what fails goes on failing
    (`can_wait`): then it is not waited for long; an end of the connection is told in time."""
    noted = Noted(key)
    noted.answer_s = WAIT_S if can_wait else ANSWER_S
    try:
        SCRIPTS[door](server, noted)
    except TimeoutError:
        if can_wait:
            noted.add("end", "closed")
            return noted
        raise Bad(f"{door}: no answer, after {noted.said}") from None
    except TROUBLE:
        noted.add("end", "closed")
    except Exception as error:  # noqa: B902 - http.client has many names for a connection that ended
        if type(error).__module__ != "http.client":
            raise
        noted.add("end", "closed")
    return noted


def compare(noted, calm):
    """Each answer is the right one, or an error; later ones may follow from errors before."""
    wrong = []
    for (what, value), (_, right) in zip(noted.said, calm.said):
        if value in ("error", "closed") and value != right:
            break
        if value != right:
            wrong.append(f"{what}: {value} for {right}")
    return "; ".join(wrong)


def peek(server, noted):
    """What is left of the key that the script charged: never more than was told, never less than was asked."""
    with harness.Resp(server.port("resp"), ANSWER_S) as client:
        left = client.call("SLUICE.PEEK", noted.key, 0, "5/1w")[2]
    if not 5 - noted.asked <= left <= 5 - noted.charged:
        return f"{left} left of 5, of which {noted.charged} were told and {noted.asked} asked"
    return ""
