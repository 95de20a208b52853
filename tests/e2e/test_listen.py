"""Where the server listens: several addresses, unix sockets with their modes, and none that others reach unguarded."""

import os
import re
import socket
import stat
import subprocess
import threading

import pytest

from harness import DEADLINE_S, Http, Lines, encode

LIMITS = "limits:\n  - {name: a, key: ip, limit: fixed-window 9/3660d}\n"
USERS = "users:\n  - {name: ops, roles: [admin], token: 'sha256:%s'}\n" % ("0" * 64)


def serve(sluice_bin, tmp_path, policy, *args):
    path = tmp_path / "policy.yaml"
    path.write_text(policy)
    return subprocess.Popen([sluice_bin, "serve", "-c", str(path), *args], stderr=subprocess.PIPE)


def fails(sluice_bin, tmp_path, policy, *args):
    process = serve(sluice_bin, tmp_path, policy, *args)
    _, said = process.communicate(timeout=DEADLINE_S)
    return process.returncode, said.decode()


class Running:
    def __init__(self, *start):
        self.process = serve(*start)
        self.log = Lines(self.process.stderr)

    def __enter__(self):
        self.log.wait_for(lambda line: line == "sluice: ready")
        return self.log

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(DEADLINE_S) == 0, self.log.text()


def test_several_addresses_of_each_door(sluice_bin, tmp_path):
    path = tmp_path / "s.sock"
    policy = f'listen:\n  resp: ["127.0.0.1:0", "[::1]:0", "unix:{path}"]\n  http: ["127.0.0.1:0", "127.0.0.2:0"]\n'
    with Running(sluice_bin, tmp_path, policy + LIMITS) as log:
        found = re.findall(r"sluice: (resp|http) on (\S+)", log.text())
        assert [door for door, _ in found] == ["resp"] * 3 + ["http"] * 2
        for door, address in found:
            kind = socket.AF_UNIX if address.startswith("unix:") else \
                socket.AF_INET6 if address.startswith("[") else socket.AF_INET
            host, _, port = address.rpartition(":")
            with socket.socket(kind) as client:
                client.settimeout(DEADLINE_S)
                client.connect(str(path) if kind == socket.AF_UNIX else (host.strip("[]"), int(port)))
                client.sendall(encode("PING") if door == "resp" else b"GET /readyz HTTP/1.1\r\nHost: a\r\n\r\n")
                assert client.recv(100).startswith(b"+PONG" if door == "resp" else b"HTTP/1.1 200 ")


def test_the_command_line_stands_instead_of_all_of_a_door(sluice_bin, tmp_path):
    policy = 'listen:\n  resp: ["127.0.0.1:1", "127.0.0.1:2"]\n  http: "127.0.0.1:0"\n'
    with Running(sluice_bin, tmp_path, policy + LIMITS, "--resp", "127.0.0.1:0") as log:
        assert [d for d, _ in re.findall(r"sluice: (resp|http) on (\S+)", log.text())] == ["resp", "http"]


# ---- unix sockets ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("written, mode", [("", 0o660), (", mode: 0600", 0o600), (", mode: 0666", 0o666),
                                           (", mode: 000", 0o000), (", mode: 0777", 0o777)])
@pytest.mark.parametrize("mask", [0o022, 0o777, 0])
def test_a_unix_sockets_mode_is_what_is_written(sluice_bin, tmp_path, written, mode, mask):
    path, policy = tmp_path / "s.sock", tmp_path / "policy.yaml"
    policy.write_text(f'listen: {{resp: {{address: "unix:{path}"{written}}}, http: "127.0.0.1:0"}}\n' + LIMITS)
    process = subprocess.Popen([sluice_bin, "serve", "-c", str(policy)], stderr=subprocess.PIPE,
                               preexec_fn=lambda: os.umask(mask))
    log = Lines(process.stderr)
    log.wait_for(lambda line: line == "sluice: ready")
    status = os.stat(path)
    assert stat.S_ISSOCK(status.st_mode) and stat.S_IMODE(status.st_mode) == mode
    assert int(re.search(r"Umask:\s+(\d+)", open(f"/proc/{process.pid}/status", encoding="utf-8").read())[1], 8) == mask
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert not path.exists()


def test_a_unix_socket_never_has_another_mode(sluice_bin, tmp_path):
    """Somebody looks all the time: between bind() and chmod() there would be an instant."""
    path, seen, over = tmp_path / "s.sock", set(), threading.Event()

    def look():
        while not over.is_set():
            try:
                seen.add(stat.S_IMODE(os.stat(path).st_mode))
            except FileNotFoundError:
                pass

    looker = threading.Thread(target=look)
    looker.start()
    for _ in range(20):
        with Running(sluice_bin, tmp_path, f'listen: {{resp: {{address: "unix:{path}", mode: 0600}}, '
                     f'http: "127.0.0.1:0"}}\n'):
            pass
    over.set()
    looker.join(DEADLINE_S)
    assert seen == {0o600}


def test_only_the_own_file_is_removed(sluice_bin, tmp_path):
    """Another server has put its socket in the place of this one's: it stays."""
    path = tmp_path / "s.sock"
    with Running(sluice_bin, tmp_path, f'listen: {{resp: "unix:{path}", http: "127.0.0.1:0"}}\n'):
        path.unlink()
        other = socket.socket(socket.AF_UNIX)
        other.bind(str(path))
    assert path.exists()
    other.close()


def test_what_a_killed_server_left_is_replaced(sluice_bin, tmp_path):
    path = tmp_path / "s.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with Running(sluice_bin, tmp_path, f'listen: {{resp: "unix:{path}", http: "127.0.0.1:0"}}\n') as log:
        assert f"sluice: resp on unix:{path}" in log.lines


# ---- who may be reached ------------------------------------------------------------------------------------------

@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0"])
@pytest.mark.parametrize("door", ["resp", "http"])
def test_an_address_that_others_reach_is_refused_without_users(sluice_bin, tmp_path, address, door):
    other = {"resp": "http", "http": "resp"}[door]  # without a port of its own it would have the default's
    for args, policy in (([f"--{door}", address, f"--{other}", "127.0.0.1:0"], LIMITS),
                         ([], f'listen: {{{door}: "{address}", {other}: "127.0.0.1:0"}}\n' + LIMITS)):
        status, said = fails(sluice_bin, tmp_path, policy, *args)
        lines = [line for line in said.split("\n") if line.startswith("sluice: ") and "warning" not in line]
        assert status == 2 and len(lines) == 1, said
        assert f"refusing to listen on {address}: other hosts can reach it and the policy has no users" in lines[0]
        for way_out in ("add users", "127.0.0.1", "unix:/path", "unprotected: true", "--unprotected"):
            assert way_out in lines[0]


@pytest.mark.parametrize("policy, args", [
    ('listen: {resp: "127.0.0.1:0", http: {address: "0.0.0.0:0", unprotected: true}}\n', []),
    ("", ["--http", "0.0.0.0:0", "--resp", "127.0.0.1:0", "--unprotected"]),
])
def test_unless_somebody_says_that_it_is_meant(sluice_bin, tmp_path, policy, args):
    with Running(sluice_bin, tmp_path, policy + LIMITS, *args) as log:
        warnings = [line for line in log.lines
                    if "is unprotected: every client that can connect may do everything" in line]
        assert len(warnings) == 1 and warnings[0].startswith("sluice: warning: http on 0.0.0.0:")


def test_with_users_it_is_served_and_the_lack_of_tls_told(sluice_bin, tmp_path):
    with Running(sluice_bin, tmp_path, LIMITS + USERS, "--http", "0.0.0.0:0", "--resp", "127.0.0.1:0") as log:
        assert len([line for line in log.lines if "http on 0.0.0.0:" in line and "has no TLS" in line]) == 1
        port = int(re.search(r"http on 0\.0\.0\.0:(\d+)", log.text())[1])
        with Http(port) as http:
            assert http.ask("GET", "/readyz")[0] == 200
            assert http.post("/v1/check", {"key": "a", "limits": ["5/1m"]})[0] in (401, 403)


# ---- checking without serving ------------------------------------------------------------------------------------

def check(sluice_bin, path, *args):
    done = subprocess.run([sluice_bin, "serve", "--check-config", "-c", str(path), *args], capture_output=True,
                          text=True, timeout=DEADLINE_S, check=False)
    return done.returncode, done.stdout, done.stderr


def test_check_config_of_a_fine_policy_touches_nothing(sluice_bin, tmp_path):
    path, taken = tmp_path / "policy.yaml", socket.socket()
    taken.bind(("127.0.0.1", 0))
    taken.listen()
    path.write_text(f"store: {{file: {tmp_path}/store, memory: 4MiB}}\nlog: {{denials: {tmp_path}/denials}}\n"
                    f'listen: {{resp: "127.0.0.1:{taken.getsockname()[1]}", http: "unix:{tmp_path}/s.sock"}}\n'
                    + LIMITS)
    assert check(sluice_bin, path)[:2] == (0, f"{path}: fine\n")
    assert os.listdir(tmp_path) == ["policy.yaml"]
    taken.close()


def test_check_config_beside_a_running_server(sluice_bin, tmp_path):
    policy = f"store: {{file: {tmp_path}/store, memory: 4MiB}}\n" + LIMITS
    with Running(sluice_bin, tmp_path, policy, "--resp", "127.0.0.1:0", "--http", "127.0.0.1:0"):
        assert check(sluice_bin, tmp_path / "policy.yaml")[0] == 0


@pytest.mark.parametrize("policy, words", [
    ("nonsense: 1\n", ":1:1: "),
    ('listen: {http: "0.0.0.0:80"}\n', "refusing to listen on 0.0.0.0:80"),
    ("store: {file: /nowhere/store}\n", "store: /nowhere/store can't be created: folder"),
    ("store: {file: /proc/version}\n", "store: "),
    ("log: {denials: /nowhere/denials}\n", "log.denials: /nowhere/denials can't be written"),
    ("tls: {certificate: /nowhere/cert.pem, key: /nowhere/key.pem}\n", "/nowhere/cert.pem"),
    ('store: {redis: "127.0.0.1:6379", password-file: /nowhere/password}\n', "/nowhere/password: No such file"),
    ('store: {redis: "127.0.0.1:6379", password-file: /dev/zero}\n', "/dev/zero: it is not a regular file"),
    ('store: {redis: "127.0.0.1:6379", password-file: /dev/null}\n', "/dev/null: it is not a regular file"),
    ('store: {redis: "127.0.0.1:6379", tls: {ca: /etc/passwd}}\n', "store.tls.ca: /etc/passwd: no certificate"),
])
def test_check_config_says_what_is_wrong(sluice_bin, tmp_path, policy, words):
    path = tmp_path / "policy.yaml"
    path.write_text(policy)
    status, out, said = check(sluice_bin, path)
    assert status == 2 and out == "" and words in said, said


def test_check_config_says_all_at_once(sluice_bin, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text("store: {file: /nowhere/store}\nlog: {denials: /nowhere/denials}\n")
    assert [w in check(sluice_bin, path, "--http", "0.0.0.0:1")[2] for w in ("store:", "log.denials:", "refusing")] == \
        [True] * 3
