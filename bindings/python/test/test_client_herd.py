"""What docs/clients.md says of the herd, on steered time against a real server: the part of bench/herd.py that takes no
minute."""

import os
import random
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..", "..")
sys.path.insert(0, os.path.join(ROOT, "bench"))
import herd  # noqa: E402


def test_jitter_thins_the_herd():
    server = herd.Server(herd.SLUICE, herd.POLICY)
    dice = random.Random(herd.SEED)
    try:
        exact = herd.figures(herd.herd(server, "a", herd.Exact, True))
        ours = [herd.figures(herd.herd(server, "a", lambda: herd.Jittered(dice), True)) for _ in range(5)]
    finally:
        server.stop()
    assert exact[:3] == (5500, 4500, 900)
    for _, vain, peak, most, last in ours:
        assert vain < 3000 and peak < 300 and most < 14 and last < 18


def test_the_plot_is_made_of_what_was_measured():
    knocks = [(0, True)] * 3 + [(0, False)] * 7 + [(950, True)] * 7
    drawn = herd.svg([("a run", knocks)])
    assert drawn.count('class="served"/>') == 2 + 1 and drawn.count('class="vain"/>') == 2 + 1
    assert "a run" in drawn and drawn.endswith("</svg>\n")
    with open(os.path.join(ROOT, "docs", "images", "herd.svg"), encoding="utf-8") as file:
        shown = file.read()
    for title in ("all wait as told", "our jitter", "stagger", "stagger, and our jitter"):
        assert ">%s<" % title in shown
