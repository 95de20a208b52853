"""The server's own log: text or JSON lines, one event a line whatever stands in it, no secret ever."""

import datetime
import json
import signal
import subprocess

import pytest

from harness import DEADLINE_S, Lines, Resp, encode, wait_until

TOKEN = "sha256:" + "ab" * 32
POLICY = ("log: {format: json}\nusers:\n  - {name: ops, roles: [admin], token: '%s'}\nanonymous: [check]\n"
          "limits:\n  - {name: a, key: user, limit: fixed-window 5/3660d}\n" % TOKEN)


class JsonServer:
    """`sluice: ready` is a member of an object here, so the harness' own wait does not fit."""

    def __init__(self, sluice_bin, tmp_path):
        self.file = tmp_path / "policy.yaml"
        self.file.write_text(POLICY)
        self.process = subprocess.Popen([sluice_bin, "serve", "-c", str(self.file), "--resp", "127.0.0.1:0", "--http",
                                         "127.0.0.1:0"], stderr=subprocess.PIPE)
        self.log = Lines(self.process.stderr)
        self.log.wait_for(lambda line: '"message":"ready"' in line)

    def lines(self):
        return [json.loads(line) for line in self.log.text().split("\n")]

    def messages(self):
        return [line["message"] for line in self.lines()]


@pytest.fixture
def json_server(sluice_bin, tmp_path):
    one = JsonServer(sluice_bin, tmp_path)
    yield one
    one.process.terminate()
    assert one.process.wait(DEADLINE_S) == 0


def test_json_lines(json_server):
    one = json_server
    for line in one.lines():
        assert set(line) in ({"time", "level", "message"}, {"time", "level", "message", "file", "line", "column"})
        assert line["level"] in ("info", "warning", "error")
        at = datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=datetime.timezone.utc)
        assert abs((datetime.datetime.now(datetime.timezone.utc) - at).total_seconds()) < 60
    port = int(next(m for m in one.messages() if m.startswith("resp on ")).rpartition(":")[2])
    with Resp(port) as client:  # what a client sends is in no line
        client.send(encode("AUTH", "ops", "secret-word\n{}"))
        client.read()
    one.file.write_text("nonsense: 1\n" + POLICY)
    one.process.send_signal(signal.SIGHUP)
    wait_until(lambda: any("was rejected" in m for m in one.messages()), "the refusal")
    mistakes = [line for line in one.lines() if line.get("line") and line["level"] == "error"]
    assert (mistakes[-1]["level"], mistakes[-1]["line"], mistakes[-1]["column"]) == ("error", 1, 1)
    assert mistakes[-1]["file"] == str(one.file)
    assert one.lines()[-1]["level"] == "error"
    text = one.log.text()
    assert "secret-word" not in text and "ab" * 16 not in text


def test_the_format_changes_with_a_reload(json_server):
    one = json_server
    one.file.write_text(POLICY.replace("json", "text"))
    one.process.send_signal(signal.SIGHUP)
    one.log.wait_for(lambda line: line == f"sluice: loaded {one.file}")


@pytest.mark.parametrize("json_format", [False, True])
def test_nobody_forges_a_line(sluice_bin, tmp_path, json_format):
    """A file's name has a newline in it, and what looks like a line of ours."""
    path = tmp_path / "a\nsluice: ready"
    path.write_text(f"log: {{format: {'json' if json_format else 'text'}}}\nlimits: 5\n")
    done = subprocess.run([sluice_bin, "serve", "-c", str(path)], capture_output=True, text=True, timeout=DEADLINE_S,
                          check=False)
    assert done.returncode == 2
    assert "sluice: ready" not in done.stderr.split("\n") and "a?sluice: ready" in done.stderr


def test_turning_away_is_told_once_in_ten_seconds(server):
    """What clients can cause fills no disk."""
    one = server(open_files=64)
    clients = []
    try:
        for _ in range(300):
            try:
                clients.append(Resp(one.resp_port))
                clients[-1].send(b"*1\r\n$4\r\nPING")  # in hand: it does not give way
            except OSError:
                break
        one.stderr.wait_for(lambda line: "refusing connections" in line)
    finally:
        for client in clients:
            client.close()
    with one.resp() as client:
        wait_until(lambda: client.call("PING") == b"PONG", "service")
    assert sum("refusing connections" in line for line in one.stderr.lines) == 1
