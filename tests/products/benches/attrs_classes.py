"""How many classes of one name attrs makes while the fixed piece of work is done, in a program of 150."""

import linecache

import attr
import timing

CLASSES = 150


def classes() -> None:
    # Some releases keep the source of each class there, and look through all of the same name.
    linecache.clearcache()
    for _ in range(CLASSES):

        @attr.s(slots=True, frozen=True)
        class Point:
            x = attr.ib()
            y = attr.ib(default=1)
            tags = attr.ib(default=attr.Factory(list))


if __name__ == "__main__":
    timing.say(CLASSES / took for took in timing.relative(classes, runs=5))
