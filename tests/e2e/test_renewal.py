"""Certificates that are renewed in their files, and TLS connections through an upgrade."""

import os
import shutil
import signal

from harness import DEADLINE_S, wait_until
from test_tls import TlsResp, certs, client_context, policy, serial_of
from test_upgrade import LIMITS, reaper, upgraded

__all__ = ["certs", "reaper", "upgraded"]  # fixtures


def test_a_renewed_certificate_is_followed(server, certs, tmp_path):
    """As certbot leaves it: other bytes under the same names, nobody is told, the policy is as it was."""
    for ending in ("pem", "key"):
        shutil.copy(f"{certs}/server.{ending}", tmp_path / f"live.{ending}")
    shutil.copy(f"{certs}/ca.pem", tmp_path)
    one = server(policy(str(tmp_path), name="live"), listen=())
    port = one.ports("resp")[1]
    first = serial_of(port, certs)
    for ending in ("pem", "key"):  # between the two they do not match: told, and the old one goes on
        shutil.copy(f"{certs}/second.{ending}", tmp_path / f"new.{ending}")
        os.rename(tmp_path / f"new.{ending}", tmp_path / f"live.{ending}")
    wait_until(lambda: serial_of(port, certs) != first, "the renewed certificate was not used")
    shutil.copy(tmp_path / "ca.pem", tmp_path / "live.pem")
    one.stderr.wait_for(lambda line: "was rejected" in line or "live.key" in line)
    assert serial_of(port, certs) != first and one.alive()


def test_tls_at_an_upgrade(upgraded, certs):
    """A TLS connection can't move: the old process serves it on until it may end; new ones go to the new process."""
    one = upgraded(policy(certs, LIMITS), listen=())
    port = one.one.ports("resp")[1]
    with TlsResp(port, client_context(certs)) as old:
        assert old.call("SLUICE.ADMIT", "1", "user", "bob")[2] == 19999
        os.kill(one.pid, signal.SIGUSR2)
        one.one.stderr.wait_for(lambda line: "has taken over" in line)
        assert old.call("SLUICE.ADMIT", "1", "user", "bob")[2] == 19998
        with TlsResp(port, client_context(certs)) as fresh:
            assert fresh.call("SLUICE.ADMIT", "1", "user", "bob")[2] == 19997
            old.close()
            assert one.one.process.wait(DEADLINE_S) == 0
            assert fresh.call("SLUICE.ADMIT", "1", "user", "bob")[2] == 19996
    one.pid = int(one.log().split("sluice: process ")[1].split()[0])
