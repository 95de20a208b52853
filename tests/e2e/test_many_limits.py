"""A policy of ten thousand limits: decided by what matches, shown in pages and bounded pieces, reloaded like others."""

import os
import signal
import socket
import subprocess
import time

import pytest

from harness import DEADLINE_S, encode, raw_exchange, wait_until

COUNT = 10_000
OWN = 1024  # limits with figures of their own


def policy(count, quota):
    rest = f"optional: true, key: user, limit: fixed-window {quota}/3660d"
    rules = "".join(f"  - {{name: n{i}, when: {{user: u{i}}}, {rest}}}\n" for i in range(count))
    return f"attributes: {{user: given}}\nlimits:\n{rules}"


def admit(one, user):
    with one.resp() as client:
        return client.call("SLUICE.ADMIT", "1", "user", user)


def pages(web, count):
    after, names = "", []
    while after is not None:
        status, _, page = web.ask("GET", f"/v1/limits?count={count}" + (f"&after={after}" if after else ""))
        assert status == 200
        assert page["total"] == COUNT and len(page["limits"]) <= count
        names += [limit["name"] for limit in page["limits"]]
        after = page.get("next")
    return names


def test_ten_thousand_limits(server):
    one = server(policy(COUNT, 5), ["--threads", "2"])
    assert admit(one, "u7")[1:3] == [5, 4]
    assert admit(one, "u9999")[1:3] == [5, 4]
    assert admit(one, "nobody")[1] == 4294967295
    with one.http() as web:
        assert pages(web, 1000) == [f"n{i}" for i in range(COUNT)]
        assert web.ask("GET", "/v1/limits?after=nobody")[0] == 400
        assert web.ask("GET", "/v1/limits?count=1025")[0] == 400
        for query in ("limits?after=n1&after=n1", "limits?after=n1&count=1&after=n2", "limits?count=1&count=1",
                      "top?kind=near&kind=near", "figures?history=1&history=1", "figures?limit=n1&limit=n2",
                      "tail?limit=n1&limit=n2"):
            status, _, problem = web.ask("GET", "/v1/" + query)
            assert status == 400 and "a parameter is given twice: expected each once" in problem["detail"], query
        metrics = web.ask("GET", "/metrics")[2].decode()
        assert f"sluice_limits {COUNT}\n" in metrics
        assert f"sluice_limits_without_series {COUNT - OWN}\n" in metrics
        assert 'sluice_decisions_total{policy="n7",decision="allowed",transport="resp"} 1\n' in metrics
        assert 'sluice_decisions_total{policy="(others)",decision="allowed",transport="resp"} 1\n' in metrics
        assert 'policy="n1024"' not in metrics and len(metrics) < 8 << 20
        figures = web.ask("GET", "/v1/figures")[2]["limits"]
        assert len(figures) == 1 + OWN + 1 and figures[-1]["name"] == "(others)" and figures[-1]["allowed"] == 1
        story = web.ask("GET", "/v1/inspect?user=u9999")[2]
        assert [limit["name"] for limit in story["limits"]] == ["n9999"]
        assert len(story["others"]) == OWN - 1 and story["left_out"] == COUNT - OWN
    with one.resp() as client:  # every limit can be named
        assert client.call("SLUICE.RESET", "user=u9999", "policy:n9999") == 1


def test_a_reload_of_ten_thousand_limits(server):
    one = server(policy(COUNT, 5))
    assert admit(one, "u9999")[1:3] == [5, 4]
    with open(one.policy_file, "w", encoding="utf-8") as file:
        file.write(policy(COUNT, 9))
    one.process.send_signal(signal.SIGHUP)
    one.stderr.wait_for(lambda line: line.startswith("sluice: loaded "))
    wait_until(lambda: admit(one, "u9999")[1] == 9, "the new quota")
    assert admit(one, "u9999")[2] < 8  # what was spent stays spent


LONG = 5000  # limits whose names are as long as names get suggestions for


@pytest.fixture(name="long_names")
def fixture_long_names(server):
    rule = "optional: true, key: user, limit: 100/1m"
    names = "".join(f"  - {{name: customer-{i:05d}-requests-a-minute, {rule}}}\n" for i in range(LONG))
    return server(f"attributes: {{user: given}}\nlimits:\n{names}", ["--threads", "1"])


@pytest.mark.parametrize("words", [("SLUICE.CHECK", "k", "1", "policy:customer-99999-requests-a-minutf"),
                                   ("SLUICE.TAIL", "LIMIT", "customer-99999-requests-a-minutf")], ids=["check", "tail"])
def test_unknown_names_keep_nobody_waiting(long_names, words):
    """Looking for what was meant costs no more than a few ordinary calls, however many limits there are: a write full
    of names that nobody has delays another client by some milliseconds. It was 11 s."""
    bad = encode(*words)
    with long_names.resp() as unknowing, long_names.resp() as other:
        assert other.call("PING") == b"PONG"
        unknowing.send(bad * (65536 // len(bad)))
        time.sleep(0.1)  # the server's worker is busy with them
        began = time.monotonic()
        assert other.call("PING") == b"PONG"
        assert time.monotonic() - began < 3
        said = str(unknowing.read())
        assert "did you mean customer-" in said


HEAD = b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
WHY = encode("SLUICE.WHY", "1", "user", "a")


@pytest.mark.parametrize("door, data, mark, count", [
    ("http", HEAD * 200, b"HTTP/1.1 200 OK", 200),
    ("resp", encode("CLIENT", "REPLY", "OFF") + WHY * 1000 + encode("CLIENT", "REPLY", "ON"), b"+OK", 1)],
    ids=["http", "resp"])
def test_costly_requests_in_one_write_let_others_in_between(long_names, door, data, mark, count):
    """What one client asks at once is answered in turns, whether or not it wants to hear the answers. Another one that
    asks meanwhile was answered after all of it."""
    def asks_between():
        with socket.create_connection(("127.0.0.1", getattr(long_names, door + "_port")), DEADLINE_S) as one, \
                long_names.resp() as other:
            assert other.call("PING") == b"PONG"
            one.sendall(data)
            time.sleep(0.05)
            assert other.call("PING") == b"PONG"
            one.setblocking(False)
            try:
                got = one.recv(1 << 20)
            except BlockingIOError:
                got = b""
            before = got.count(mark)
            one.settimeout(DEADLINE_S)
            while got.count(mark) < count:
                got += one.recv(1 << 20)
            return before < count

    assert any(asks_between() for _ in range(5))  # where the machine stands still, all may be said meanwhile


def test_answers_of_many_turns_come_in_their_order(server):
    one = server("limits: []\n", ["--threads", "1"])
    docs = encode("COMMAND", "DOCS")
    with one.resp() as first, one.resp() as second:
        for client in (first, second):
            client.send(b"".join(docs + encode("ECHO", str(i)) for i in range(100)))
        for i in range(100):
            for client in (first, second):
                assert len(client.read()) > 50 and client.read() == str(i).encode()


def test_who_has_more_turns_to_come_is_answered_when_the_server_ends(server):
    """Read as bytes: the server leaves 5 s for its last answers, which a slow machine takes to parse them."""
    one = server("limits: []\n", ["--threads", "1"])
    docs = encode("COMMAND", "DOCS")
    said = raw_exchange(one.resp_port, docs)
    with one.resp() as client, one.resp() as other:
        client.send(docs * 100 + encode("ECHO", "last"))
        parts = [client.sock.recv(1 << 20)]
        assert other.call("PING") == b"PONG"
        one.ask_to_end()
        while parts[-1]:
            parts.append(client.sock.recv(1 << 20))
    got = b"".join(parts)
    assert len(said) > 10_000 and got == said * 100 + b"$4\r\nlast\r\n", (len(said), len(got), got[-100:])


def write(path, text):
    """As who means it does: whole, then in its place."""
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".new", path)


OWN_QUOTAS = """limits:
  - name: per-user
    key: user | ip
    limit: fixed-window 5/3660d
    overrides-from: {path}
"""


def test_overrides_from_a_file(server, tmp_path):
    path = str(tmp_path / "quotas.csv")
    write(path, "key,limit\nalice,fixed-window 7/3660d\n")
    one = server(OWN_QUOTAS.format(path=path), ["--threads", "2"])
    assert admit(one, "alice")[1:3] == [7, 6]
    assert admit(one, "bob")[1:3] == [5, 4]
    with one.http() as web:
        limit = web.ask("GET", "/v1/limits")[2]["limits"][0]
        assert limit["overrides_from"] == path and limit["keys_with_overrides"] == 1
        story = web.ask("GET", "/v1/inspect?user=alice")[2]["limits"][0]
        assert story["why"] == f"line 2 of {path} applies, the key's own quota"
    write(path, "alice,fixed-window 9/3660d\nbob,fixed-window 50/3660d\n")  # nobody says so: it is followed
    wait_until(lambda: admit(one, "bob")[1] == 50, "the new file")
    assert admit(one, "alice")[1:3] == [9, 7]  # what was spent stays spent
    write(path, "alice,fixed-window 11/3660d\nbob;unlimited\n")
    one.stderr.wait_for(lambda line: f"{path}:2:1: expected KEY,LIMIT" in line)
    one.stderr.wait_for(lambda line: line.endswith("was rejected: keeping the current policy"))
    assert admit(one, "alice")[1:3] == [9, 6]
    os.remove(path)
    one.process.send_signal(signal.SIGHUP)
    one.stderr.wait_for(lambda line: f"can't read the overrides {path}" in line)
    assert admit(one, "alice")[1:3] == [9, 5]


def test_overrides_on_the_command_line(tmp_path, sluice_bin):
    def run(*words):
        done = subprocess.run([sluice_bin, *words], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    path, policy_file = str(tmp_path / "quotas.csv"), str(tmp_path / "sluice.yaml")
    write(policy_file, OWN_QUOTAS.format(path=path))
    status, out, _ = run("lint", policy_file)
    assert status == 1 and f"{policy_file}:5:21: error: can't read the overrides {path}" in out
    write(path, "alice,fixed-window 7/3660d\nbob,8/1m\n")
    status, out, _ = run("lint", policy_file)
    assert status == 1 and f"{path}:2:5: error: expected unlimited, or another quota for the counters of" in out
    write(path, "")
    assert "are empty: a line that begins with # says" in run("lint", policy_file)[1]
    write(path, "alice,fixed-window 7/3660d\n")
    assert run("lint", "--errors-only", policy_file)[0] == 0
    assert f"line 1 of {path} applies, the key's own quota" in run("explain", "-c", policy_file, "user=alice")[1]


def lint(program, *words):
    done = subprocess.run([program, "lint", *words], text=True, stdout=subprocess.PIPE, timeout=120)
    return done.returncode, done.stdout


def test_lint_tells_of_lines_that_do_nothing(sluice_bin, tmp_path):
    path, file = str(tmp_path / "quotas.csv"), str(tmp_path / "sluice.yaml")
    write(file, "attributes: {user: header x-user}\n" + OWN_QUOTAS.format(path=path) + "    when: {not: {user: eve}}\n")
    write(path, "alice,fixed-window 7/3660d\n")
    assert lint(sluice_bin, file) == (0, f"{file}: fine, 1 limit\n")
    write(path, "alice,fixed-window 7/3660d\n# plans\nbob,fixed-window 5/3660d\neve,unlimited\n")
    status, said = lint(sluice_bin, file)
    assert status == 1 and said.splitlines() == [
        f"{path}:3:1: warning: changes nothing: the limit itself says the same for this key: leave the line out",
        f"{path}:4:1: warning: never used: the limit's own `when` excludes this key: leave the line out"]
    assert lint(sluice_bin, file, "--errors-only") == (0, f"{file}: fine, 1 limit\n")


def test_lint_of_a_million_lines(sluice_bin, tmp_path):
    """The first are listed and the others counted."""
    path, file = str(tmp_path / "quotas.csv"), str(tmp_path / "sluice.yaml")
    write(file, "attributes: {user: header x-user}\n" + OWN_QUOTAS.format(path=path))
    write(path, "".join(f"u{i},fixed-window 5/3660d\n" for i in range(1000000)))
    status, said = lint(sluice_bin, file)
    lines = said.splitlines()
    assert status == 1 and len(lines) == 21 and lines[19].startswith(f"{path}:20:1: warning: changes nothing")
    assert lines[20] == f"{path}:20:1: warning: 999980 more lines that do nothing are not listed"


def test_lint_says_which_lines_it_left_unchecked(sluice_bin, tmp_path):
    """A line is compared with every override, and so many comparisons that lint would take minutes are not made: of
    the lines that are left a note says how many they are, and as it is nobody's mistake the status stays 0."""
    path, file = str(tmp_path / "quotas.csv"), str(tmp_path / "sluice.yaml")
    overrides = "".join(f"    - {{when: {{user: o{i}}}, limit: fixed-window 9/3660d}}\n" for i in range(1992))
    write(file, "attributes: {user: header x-user}\n" + OWN_QUOTAS.format(path=path) + "    overrides:\n" + overrides)
    quotas = [f"u{i},fixed-window 7/3660d\n" for i in range(10000)]
    write(path, "".join(quotas))
    assert lint(sluice_bin, file) == (0, f"{file}: fine, 1 limit\n")
    same, note = "same,fixed-window 5/3660d\n", (
        f"{path}: note: lint looked for lines that do nothing among the first 10000 of 10001 keys only: comparing "
        "the others with the limit's overrides would take too long\n")
    write(path, "".join(quotas) + same)
    assert lint(sluice_bin, file) == (0, note + f"{file}: fine, 1 limit\n")
    assert lint(sluice_bin, file, "--errors-only") == (0, f"{file}: fine, 1 limit\n")
    write(path, "".join(quotas[:-1]) + same + quotas[-1])
    status, said = lint(sluice_bin, file)
    assert status == 1 and said.splitlines()[0].startswith(f"{path}:10000:1: warning: changes nothing")
    assert said.splitlines(keepends=True)[1:] == [note]


@pytest.mark.parametrize("others", [0, 3000])
def test_lint_says_that_it_did_not_compare_all_rules(sluice_bin, tmp_path, others):
    """The last limit is hidden by the one before it. Of few rules lint tells so. Where it would take too long to
    compare them all it says that, and as it is nobody's mistake the status stays 0."""
    file = str(tmp_path / "sluice.yaml")
    paths = [f"[/a{i}/*, /b/c{i}/*]" for i in range(others)] + ["/z/*", "/z/y/*"]
    write(file, "limits:\n" + "".join(f"- {{name: l{i}, key: ip, limit: 5/1m, when: {{path: {path}}}}}\n"
                                      for i, path in enumerate(paths)))
    fine = f"{file}: fine, {others + 2} limits\n"
    note = f"{file}: note: lint did not compare all rules with each other, which would take too long: rules that " \
        "others hide, repeat or bound may be missing from the list\n"
    hidden = f"{file}:3:3: warning: denies no request that the limit in line 2 admits: that limit counts the same " \
        "and its quota is no larger\n"
    assert lint(sluice_bin, file) == ((0, note + fine) if others else (1, hidden))
    assert lint(sluice_bin, file, "--errors-only") == (0, fine)


def test_lint_tells_of_costs_that_never_count(sluice_bin, tmp_path):
    file = str(tmp_path / "sluice.yaml")
    write(file, "limits:\n- name: a\n  key: ip\n  limit: 5/1m\n  cost:\n"
          "  - {when: {path: /export/*}, cost: 6}\n  - {when: {path: /export/all}, cost: 2}\n  - 1\n")
    status, said = lint(sluice_bin, file)
    assert status == 1 and said.splitlines() == [
        f"{file}:6:5: warning: never admitted: a cost of 6, where the largest quota that it can be charged to "
        "admits 5 at once",
        f"{file}:7:5: warning: never reached: the cost in line 6 matches all of it"]
    write(file, "limits:\n- name: a\n  key: ip\n  limit: 5/1m\n  reserve: {estimate: [header x-max, 6], ttl: 1m}\n")
    assert lint(sluice_bin, file) == (
        1, f"{file}:5:38: warning: never admitted: an estimate of 6, where the largest quota that it can be charged "
        "to admits 5 at once\n")
