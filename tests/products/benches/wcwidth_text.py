"""How long wcwidth takes to compute the width of a text in a terminal."""

import timing
from wcwidth import wcswidth

TEXT = "A quick brown fox, コンニチハ セカイ, cafe\u0301 au lait; " * 8

if __name__ == "__main__":
    timing.say(timing.relative(lambda: wcswidth(TEXT), times=30))
