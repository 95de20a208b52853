"""A program at a terminal of its own, as a person sits before it."""

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time

from harness import DEADLINE_S


class Terminal:
    """Everything that it waits for has a deadline; `seen` is what was shown and not yet waited for."""

    def __init__(self, command, rows=24, columns=80, cwd=".", env=os.environ):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                resize(0, rows, columns)
                os.chdir(cwd)
                os.execvpe(command[0], command, env)
            finally:
                os._exit(127)
        self.seen = b""

    def resize(self, rows, columns):
        resize(self.fd, rows, columns)

    def type(self, data):
        os.write(self.fd, data)

    def _read(self, end):
        """More of what is shown; False where the program has closed its terminal."""
        if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
            raise AssertionError(f"not within the deadline; seen last: {self.seen[-2000:]!r}")
        try:
            self.seen += os.read(self.fd, 65536)
        except OSError:
            return False
        return True

    def until(self, pattern, deadline_s=DEADLINE_S):
        """Waits for a text that looks like this, and forgets all up to its end. The match."""
        end = time.monotonic() + deadline_s
        while not re.search(pattern, self.seen) and self._read(end):
            continue
        found = re.search(pattern, self.seen)
        assert found, self.seen[-2000:]
        self.seen = self.seen[found.end():]
        return found

    def status(self, deadline_s=DEADLINE_S):
        """Waits for its end; what it showed until then is in `seen`."""
        end = time.monotonic() + deadline_s
        while self._read(end):
            continue
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self):
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
