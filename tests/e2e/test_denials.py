"""The denial log of a running server: who is in it, how often, and what becomes of the file."""

import json
import os

from harness import wait_until

POLICY = """
log: {denials: %s, denials-per-key: %s, denials-per-second: 5}
limits:
  - {name: login, key: user, limit: sliding-log 1/1h}
  - {name: seen, key: user, limit: sliding-log 1/1h, observe: true}
"""


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(x) for x in f]


def test_each_key_once_in_its_time_and_no_shadows(server, tmp_path):
    path = tmp_path / "denials.jsonl"
    one = server(POLICY % (path, "1h"))
    with one.resp() as r, one.http() as h:
        for _ in range(40):
            r.call("SLUICE.ADMIT", 1, "user", "ann")
        h.post("/v1/admit", {"attributes": {"user": "ben"}, "cost": 2})
        r.call("SLUICE.ADMIT", 0, "user", "ann")  # allowed, a peek and a refund are no denials
        r.call("SLUICE.PEEK", "user=ann", 5, "policy:login")
    lines = wait_until(lambda: len(x := lines_of(path)) >= 2 and x, "two lines in the log")
    assert len(lines) == 2
    ann, ben = lines
    assert {k: ann[k] for k in ("limit", "key", "cost", "quota", "transport", "suppressed")} == {
        "limit": "login", "key": "user=ann", "cost": 1, "quota": 1, "transport": "resp", "suppressed": 0}
    assert 3590000 < ann["retry_after_ms"] <= 3600000
    assert (ben["key"], ben["cost"], ben["retry_after_ms"], ben["transport"]) == ("user=ben", 2, -1, "http")
    assert os.stat(path).st_mode & 0o007 == 0


def test_no_key_acts_on_who_reads_it(server, tmp_path):
    """Turned around, hidden, or at the end of a line for an editor: it stands as \\u, in the log and in answers."""
    path = tmp_path / "denials.jsonl"
    one = server(POLICY % (path, "1h"))
    name = "ann\u202egnp.exe\u2028\u2029\u200b\u2066\ufeff\x1b[2J\x9b\U000e0041"
    with one.resp() as r, one.http() as h:
        r.call("SLUICE.ADMIT", 2, "user", name)
        lines = wait_until(lambda: lines_of(path), "a line in the log")
        assert [x["key"] for x in lines] == ["user=" + name]
        assert path.read_bytes().isascii() and b"\\u202e" in path.read_bytes()
        for listed, *ask in (["entries", "GET", "/v1/top"],
                             ["limits", "POST", "/v1/admit", json.dumps({"attributes": {"user": name}})]):
            h.connection.request(*ask)
            body = h.connection.getresponse().read()
            assert body.isascii() and json.loads(body)[listed][0]["key"] == "user=" + name, body


def test_a_flood_of_keys_is_held_to_lines_a_second(server, tmp_path):
    path = tmp_path / "denials.jsonl"
    one = server(POLICY % (path, "1ms"))
    with one.resp() as r:
        for i in range(2000):
            assert r.call("SLUICE.ADMIT", 2, "user", f"u{i}")[0] == 0
    one.stop()
    lines = lines_of(path)
    seconds = {x["time"][:19] for x in lines}
    assert 1 <= len(lines) <= 5 * len(seconds)
    assert all(sum(x["time"].startswith(s) for x in lines) <= 5 for s in seconds)


def test_a_rotated_file_is_begun_anew(server, tmp_path):
    path = tmp_path / "denials.jsonl"
    one = server(POLICY % (path, "1h"))
    with one.resp() as r:
        r.call("SLUICE.ADMIT", 2, "user", "ann")
        wait_until(lambda: lines_of(path), "a line in the log")
        os.rename(path, tmp_path / "old")
        r.call("SLUICE.ADMIT", 2, "user", b"b\xffn")
        lines = wait_until(lambda: path.exists() and lines_of(path), "a line in the new file")
    assert [x["key_hex"] for x in lines] == [b"user=b\xffn".hex()]
    assert [x["key"] for x in lines_of(tmp_path / "old")] == ["user=ann"]
