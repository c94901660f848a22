"""Running suites: what a request selects, on which testbed, by Robot Framework, and what a build measured."""
