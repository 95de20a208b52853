"""A server with each call failing: while it serves, at each door; while it starts and ends; at a reload; at a hot
upgrade. Whatever fails it does not end, answers rightly or says that it can't, and is as ever when nothing fails."""

import errno
import os
import re
import shutil
import signal
import time

import pytest

from faults import KINDS, NEVER, PROGRAM, Trial
from serving import (ANSWER_S, Bad, Faulted, LIMITS, SCRIPTS, TROUBLE, compare, folder_of, harness, peek, policy,
                     run_script, write_policy)

FILE, MUTE_S, LINES_MAX = "test_serving.py", 4, 25
SEEN = {}  # places at which a server's calls have failed already


@pytest.fixture
def folder():
    path = folder_of(policy())
    yield path
    shutil.rmtree(path)


def is_mute(control):
    """Whether what failed was saying it: then nothing can be heard of it."""
    return "write_line" in control.told()


@pytest.mark.parametrize("door", SCRIPTS)
def test_each_call_fails_while_a_door_serves(control, folder, door):
    server = Faulted(folder, control)
    try:
        assert server.is_ready()
        for i in range(3):
            calm = run_script(server, door, f"calm{i}")
        control.arm(KINDS)
        calm = run_script(server, door, "counted")
        control.disarm()
        trial = Trial(control, FILE, f"serves and {door}")
        for armed in trial.cases(every=True):
            control.arm(**armed)
            try:
                noted = run_script(server, door, f"k{trial.tried}", can_wait=armed["last"] == NEVER)
                control.disarm()
                wrong = compare(noted, calm) or peek(server, noted)
                again = compare(run_script(server, door, f"again{trial.tried}"), calm)
                wrong = wrong or again and "afterwards: " + again
            except Bad as error:
                control.disarm()
                wrong = str(error)
            if wrong or server.process.poll() is not None:
                trial.note(wrong or "it ended", *server.stderr.lines[-LINES_MAX:])
            if server.process.poll() is not None:
                server = Faulted(folder, control)
                assert server.is_ready()
                for i in range(3):
                    run_script(server, door, f"once more{trial.tried} {i}")
    finally:
        status = server.end()
    assert status == 0, server.stderr.text()[-3000:]
    trial.end()


def life(folder, control, can_wait=False):
    """From start to end, with a client at each door: (noted by door or None, status, the server, what is wrong)."""
    server, noted, wrong = Faulted(folder, control, threads=2), {}, ""
    try:
        if server.is_ready(MUTE_S if can_wait else ANSWER_S):
            for door in SCRIPTS:
                noted[door] = run_script(server, door, f"user-{door}", can_wait)
    except Bad as error:
        wrong = str(error)
    try:
        status = server.end()
    except Bad as error:
        return noted, -1, server, wrong or str(error)
    if noted and status != 0 or not noted and status != 2:
        wrong = wrong or f"{'ready, and' if noted else 'never ready,'} ended with {status}"
    if status == 2 and not server.stderr.text().strip():
        wrong = wrong or "ended with 2, and no word"
    return noted, status, server, wrong


def test_each_call_of_a_life_fails(control, folder):
    control.arm(KINDS)
    calm, status, server, wrong = life(folder, control)
    assert status == 0 and not wrong and all(calm.values()), wrong + server.stderr.text()
    trial = Trial(control, FILE, "life")
    for armed in trial.cases(SEEN):
        control.arm(**armed)
        started = time.monotonic()
        noted, status, server, wrong = life(folder, control, armed["last"] == NEVER)
        wrong = wrong or "; ".join(filter(None, (compare(noted[door], calm[door]) for door in noted)))
        if os.environ.get("SLUICE_FAULTS_WORDS"):
            print(f"{trial.case[0]}: {time.monotonic() - started:.2f} s, {wrong}; {control.told()}", flush=True)
        if wrong and not (status in (0, 2, -signal.SIGKILL) and is_mute(control)):
            trial.note(wrong, *server.stderr.lines[-LINES_MAX:])
    trial.end()


# ---- changes while it serves ----------------------------------------------------------------------------------------

OTHER = LIMITS.replace("5/1w", "6/1w")


def quota(server, key):
    """What the policy in force gives a new user."""
    with harness.Resp(server.port("resp"), ANSWER_S) as client:
        return client.call("SLUICE.ADMIT", 1, "user", key)[1]


def lines_after(server, count, pattern, seconds=ANSWER_S):
    """The first line after those that were there that says it; None where none came in time."""
    with server.stderr.changed:
        def found():
            return next((x for x in server.stderr.lines[count:] if re.search(pattern, x)), None)
        server.stderr.changed.wait_for(lambda: found() or server.stderr.ended, seconds)
        return found()


SAID = "loaded |keeping the current policy|nothing is reloaded"


def test_each_call_of_a_reload_fails(control, folder):
    """The policy before, and a word that it is kept, or the new one; never one without limits; and the next reload
    goes well."""
    server = Faulted(folder, control)

    def reload(to, armed={"kinds": KINDS}):
        write_policy(folder, policy(limits=OTHER if to == 6 else LIMITS))
        before = len(server.stderr.lines)
        server.process.send_signal(signal.SIGHUP)
        return lines_after(server, before, SAID, 2 if armed["kinds"][0] == "write" else ANSWER_S)
    try:
        assert server.is_ready()
        control.arm(KINDS)
        assert "loaded" in reload(6) and quota(server, "first") == 6
        control.disarm()
        trial, now = Trial(control, FILE, "reload"), 6
        for armed in trial.cases():
            control.arm(**armed)
            to = 11 - now
            said, wrong = reload(to, armed), ""
            control.disarm()
            if said is None:
                wrong = "" if is_mute(control) else "nothing was said"
            elif quota(server, f"q{trial.tried}") not in ({to} if "loaded policy" in said else {now, to}):
                wrong = f"{said}; and then quota {quota(server, 'x%d' % trial.tried)}, before {now}, asked for {to}"
            elif reload(to) is None or quota(server, f"again{trial.tried}") != to:
                wrong = "afterwards it is not loaded"
            now = quota(server, f"then{trial.tried}")
            if wrong:
                trial.note(wrong, *server.stderr.lines[-LINES_MAX:])
    finally:
        status = server.end()
    assert status == 0, server.stderr.text()[-3000:]
    trial.end()


TURNED = "has taken over: process|the upgrade failed|no upgrade: "


def upgrade(folder, control, armed):
    """A server with a counter, an upgrade while calls fail, and what is there then: what is wrong about it."""
    for name in os.listdir(folder):
        if name.startswith("counters"):
            os.unlink(os.path.join(folder, name))
    server, wrong = Faulted(folder, control), ""
    assert server.is_ready()
    with harness.Resp(server.port("resp"), ANSWER_S) as client:
        client.call("SLUICE.CHECK", "kept", 2, "5/1w")
        control.arm(**armed)
        server.process.send_signal(signal.SIGUSR2)
        may_be_mute = "write" in armed["kinds"] and armed.get("error") == errno.ENOSPC
        said = lines_after(server, 0, TURNED, MUTE_S if may_be_mute else 2 * ANSWER_S)
        control.disarm()
        try:
            if said is None and not may_be_mute:
                wrong = "nothing was said"
            elif client.call("SLUICE.PEEK", "kept", 0, "5/1w")[2] != 3:
                wrong = "another count"
        except TROUBLE:
            pass  # this connection could not go over: others are served
    try:
        with harness.Resp(server.port("resp"), ANSWER_S) as client:
            if client.call("SLUICE.PEEK", "kept", 0, "5/1w")[2] != 3:
                wrong = wrong or "another count for a new connection"
    except (TimeoutError, *TROUBLE):
        wrong = wrong or "nobody answers"
    end_others(server)
    status = server.end()
    if not server.stderr.ended:
        wrong = wrong or "the new process does not end"
    if status != 0 or re.search("Sanitizer|runtime error", server.stderr.text()):
        wrong = wrong or f"ended with {status}"
    return wrong, server


def end_others(server):
    """SIGTERM to what the server has started: programs of ours with this control."""
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and int(name) != server.process.pid and os.path.realpath(f"/proc/{name}/exe") == PROGRAM:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if server.control.file.name.encode() in file.read():
                        os.kill(int(name), signal.SIGTERM)
        except OSError:
            pass  # it has ended


def test_each_call_of_an_upgrade_fails(control):
    """The new process serves, or the old one goes on and says why; no counter is lost."""
    folder = folder_of(policy(store="{file: counters, memory: 1MiB}"))
    try:
        wrong, server = upgrade(folder, control, {"kinds": KINDS})
        assert not wrong and "has taken over: process" in server.stderr.text(), wrong + server.stderr.text()
        trial = Trial(control, FILE, "upgrade")
        for armed in trial.cases(SEEN):
            wrong, server = upgrade(folder, control, armed)
            if os.environ.get("SLUICE_FAULTS_WORDS"):
                print(f"{trial.case[0]}: {wrong}; {control.told()}", flush=True)
            if wrong:
                trial.note(wrong, *server.stderr.lines[-LINES_MAX:])
        trial.end()
    finally:
        shutil.rmtree(folder)
