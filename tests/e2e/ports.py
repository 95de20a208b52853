"""Free ports for programs that must be told theirs.

Below those that the kernel gives to clients and to servers that ask for any: between the moment in which a port is
chosen here and that in which its program listens, no other test's connection or server can be given it."""

import random
import socket

PORTS = range(12000, 32000)
dice = random.Random()  # never a test's seed: tests that run beside one another are to choose apart


def free_ports(count):
    found, held = [], []
    while len(found) < count:
        held.append(socket.socket())
        port = dice.choice(PORTS)
        try:
            held[-1].bind(("0.0.0.0", port))
            found.append(port)
        except OSError:
            pass
    for one in held:
        one.close()
    return found


def free_port():
    return free_ports(1)[0]
