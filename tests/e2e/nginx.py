"""A real nginx with the module, in a folder of its own, on free ports of the loopback; reloaded, and ended by its
process id. Its configuration is a text with {port} and {folder} in it."""

import http.client
import os
import re
import shutil
import signal
import socket
import subprocess

from harness import DEADLINE_S, ROOT, wait_until
from ports import free_port

MODULE = os.environ.get("SLUICE_NGINX_MODULE", os.path.join(ROOT, "build", "nginx", "ngx_http_sluice_module.so"))
# A module with sanitizers needs their runtimes in nginx before it is loaded: the path of each, in SLUICE_NGINX_PRELOAD.
ENVIRONMENT = {**os.environ, "LD_PRELOAD": os.environ.get("SLUICE_NGINX_PRELOAD", "")}


class Nginx:
    def __init__(self, folder, http_block, workers=1, main="", level="info", environment=None):
        self.folder, self.workers, self.main, self.level = str(folder), workers, main, level
        self.environment = {**ENVIRONMENT, **(environment or {})}
        self.log, self.process = os.path.join(self.folder, "error.log"), None
        os.makedirs(self.folder, exist_ok=True)
        self.port = free_port()
        self.write(http_block)

    def write(self, http_block):
        assert os.path.exists(MODULE), f"{MODULE} is not there: run `tools/deps test` and `make nginx` first"
        text = http_block.replace("{port}", str(self.port)).replace("{folder}", self.folder)
        temporary = " ".join(f"{name}_temp_path {self.folder}/{name};" for name in
                             ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        self.conf = os.path.join(self.folder, "nginx.conf")
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write(f"load_module {MODULE};\n" + ("user root;\n" if os.geteuid() == 0 else "") +
                    f"daemon off; pid {self.folder}/pid; worker_processes {self.workers};\n"
                    f"error_log {self.log} {self.level}; {self.main}\nevents {{ worker_connections 256; }}\n"
                    f"http {{ access_log off; {temporary}\n{text}\n}}\n")

    def command(self, *words):
        return ["nginx", "-p", self.folder, "-c", self.conf, "-e", self.log, *words]

    def test(self):
        """nginx -t: whether it is content, and what it says."""
        done = subprocess.run(["nginx", "-p", self.folder, "-c", self.conf, "-e", "stderr", "-t"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=ENVIRONMENT)
        return done.returncode == 0, done.stdout

    def start(self):
        assert shutil.which("nginx"), "nginx is not installed: apt-get install nginx"
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env=self.environment)
        wait_until(self.listens, "nginx does not listen: " + self.said())
        return self

    def listens(self):
        assert self.process.poll() is None, self.said()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def said(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def workers_now(self):
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children", encoding="ascii") as f:
            return [int(word) for word in f.read().split()]

    def reload(self, http_block=None):
        """Waits until all workers are new ones."""
        if http_block is not None:
            self.write(http_block)
        before, said = set(self.workers_now()), len(self.said())
        self.process.send_signal(signal.SIGHUP)
        wait_until(lambda: (set(self.workers_now()) and not before & set(self.workers_now())) or
                   "[emerg]" in self.said()[said:], "no new workers: " + self.said())
        return "[emerg]" not in self.said()[said:]

    def ask(self, path, method="GET", headers=None, body=None):
        """Status, headers (names in lower case) and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)
        try:
            hosts = any(name == "Host" for name, _ in headers or [])
            connection.putrequest(method, path, skip_host=hosts, skip_accept_encoding=True)
            for name, value in headers or []:
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
        finally:
            connection.close()

    def status(self, path, **options):
        return self.ask(path, **options)[0]

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("SIGTERM did not end nginx: " + self.said())


def levels(said):
    """Of every line of an error log its level and its text."""
    return re.findall(r"\[(\w+)\] \d+#\d+: (?:\*\d+ )?(.*)", said)
