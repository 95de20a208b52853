"""Calls that fail where somebody else decides: verbs that ask a server or a Redis with the module, and a front while it
serves. What is charged at the other end is never less than what was told, and never more than what was asked."""

import os
import re
import subprocess
import sys

import pytest

from faults import ENVIRONMENT, KINDS, NEVER, PLAIN, PROGRAM, ROOT, SECONDS_MAX, Trial, output_of, steady
from serving import ANSWER_S, Bad, Faulted, LIMITS, compare, folder_of, harness, policy, run_script

sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from redis_world import Redis  # noqa: E402

LEASE = "concurrency 3 lease 1w"
# What is asked, by a key of its own each time; what it charges of 100/1w.
VERBS = {
    "check": (["check", "KEY", "100/1w", "--cost", "3", "--next"], 3),
    "several": (["check", "KEY", "100/1w", "token-bucket 9/1w", "--id", "a"], 1),
    "peek": (["check", "KEY", "100/1w", "--peek"], 0),
    "acquire": (["acquire", "KEY", LEASE, "--id", "new"], 0),
    "holders": (["holders", "KEY", LEASE], 0),
    "reserve": (["reserve", "KEY", "100/1w", "--cost", "2", "--ttl", "1d"], 2),
    "reset": (["reset", "KEY", "100/1w"], 0),
}
AT_A_SERVER = {
    **VERBS,
    "explain": (["explain", "user=KEY", "path=/login"], 0),
    "top": (["top", "--once"], 0),
    "ready": (["ready"], 0),
}
SEEN = {}
# Where nothing could be asked for want of memory on-error allows it: gRPC tells of nothing left, explain of no bound.
UNDECIDED = ((1, [0]), (200, 4294967295))


@pytest.fixture(scope="module")
def node():
    one = Redis(module=())
    yield one
    one.stop()


@pytest.fixture(scope="module")
def server():
    """A server with nothing failing."""
    one = harness.Server(PLAIN, LIMITS)
    yield one
    one.stop()


def run(argv, control=None):
    more = {"FAULTS": control.file.name} if control else {}
    return subprocess.run([PROGRAM, *argv], env={**ENVIRONMENT, **more}, text=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=SECONDS_MAX, check=False)


def trouble_of(done, calm, charge, used):
    """What is wrong about how a verb ended, or nothing. What it did not say may have been done all the same."""
    if done.returncode not in (0, 1, 2) or "Sanitizer" in done.stderr or "runtime error" in done.stderr:
        return f"ended with {done.returncode}"
    if done.returncode == 2:
        if not done.stderr.strip():
            return "ended with 2, and no word"
        return "" if used in (0, charge) else f"{used} charged, of {charge} asked"
    if done.returncode != calm.returncode:
        return f"ended with {done.returncode}"
    if steady(done.stdout) != steady(calm.stdout):
        return f"another answer: {steady(done.stdout)[-400:]!r} for {steady(calm.stdout)[-400:]!r}"
    return "" if used == charge else f"{used} charged, and {charge} told"


def fail_each_call(control, name, argv, charge, used_of):
    prefix = re.sub(r"\W", "", name)

    def of(key):
        return [word.replace("KEY", key) for word in argv]

    control.arm(KINDS)
    calm = run(of(f"{prefix}key0"), control)
    assert calm.returncode in (0, 1), calm
    trial = Trial(control, "test_remote.py", name)
    for armed in trial.cases(SEEN):
        control.arm(**armed)
        key = f"{prefix}key{trial.tried}"
        try:
            done = run(of(key), control)
            wrong = trouble_of(done, calm, charge, used_of(key))
        except subprocess.TimeoutExpired:
            done, wrong = None, f"not done after {SECONDS_MAX} s"
        if wrong:
            trial.note(wrong, *output_of(done))
    trial.end()


def used_at(resp):
    return lambda key: 100 - resp.call("SLUICE.PEEK", key, 0, "100/1w")[2]


@pytest.mark.parametrize("verb", AT_A_SERVER)
def test_each_call_of_a_verb_that_asks_a_server_fails(control, server, verb):
    argv, charge = AT_A_SERVER[verb]
    port = server.http_port if verb == "ready" else server.resp_port
    with server.resp(timeout=ANSWER_S) as resp:
        fail_each_call(control, f"server and {verb}", [*argv, "--server", f"127.0.0.1:{port}"], charge, used_at(resp))


@pytest.mark.parametrize("verb", VERBS)
def test_each_call_of_a_verb_that_asks_a_redis_fails(control, node, verb):
    argv, charge = VERBS[verb]
    with node.resp(timeout=ANSWER_S) as resp:
        fail_each_call(control, f"redis and {verb}", [*argv, "--store", f"redis://127.0.0.1:{node.port}"], charge,
                       used_at(resp))


@pytest.mark.parametrize("door", ["resp", "http", "grpc"])
def test_each_call_of_a_front_fails(control, node, door):
    """While it fails an answer may be an error, or the connection is ended; afterwards all is as ever, and the node
    has charged what was told, and no more than was asked."""
    folder = folder_of(policy(store=f'{{redis: ["127.0.0.1:{node.port}"], prefix: "{door}:", budget: 5s}}'))
    front = Faulted(folder, control)
    try:
        assert front.is_ready()
        harness.wait_until(lambda: "redis answers: ready" in front.stderr.text(), "its node has not answered")
        for i in range(3):
            calm = run_script(front, door, f"calm{i}")
        assert [what for what, value in calm.said if value in ("error", "closed")] in ([], ["wrong"]), calm.said
        control.arm(KINDS)
        calm = run_script(front, door, "counted")
        control.disarm()
        trial = Trial(control, "test_remote.py", f"front and {door}")
        for armed in trial.cases(SEEN):
            control.arm(**armed)
            try:
                noted = run_script(front, door, f"k{trial.tried}", can_wait=armed["last"] == NEVER)
                control.disarm()
                noted.said = [(what, "error" if value in UNDECIDED else value) for what, value in noted.said]
                wrong = compare(noted, calm) or charged_at(node, door, noted)
                if not wrong:
                    harness.wait_until(
                        lambda: not compare(run_script(front, door, f"again{trial.tried}{os.urandom(4).hex()}"), calm),
                        "all is served again")
            except (Bad, AssertionError) as error:
                control.disarm()
                wrong = str(error)
            if wrong or front.process.poll() is not None:
                trial.note(wrong or "it ended", *front.stderr.lines[-25:])
                break
    finally:
        status = front.end()
    assert status == 0, front.stderr.text()[-3000:]
    trial.end()


def charged_at(node, door, noted):
    with node.resp(timeout=ANSWER_S) as resp:
        used = 5 - resp.call("SLUICE.PEEK", f"{door}:{noted.key}", 0, "5/1w")[2]
    return "" if noted.charged <= used <= max(noted.asked, noted.charged) else \
        f"{used} charged at the node, of which {noted.charged} were told and {noted.asked} asked"
