"""The parsers of VPP's counters, with output in the formats of several releases of VPP."""

from __future__ import annotations

from perftrend.measure.vpp.driver import (
    add_runtimes,
    clocks_per_packet,
    parse_errors,
    parse_interfaces,
    parse_runtime,
    subtract_errors,
)

RUNTIME = """\
Thread 0 vpp_main (lcore 1)
Time 9.9, 10 sec internal node vector rate 0.00 loops/sec 1054938.44
  vector rates in 0.0000e0, out 0.0000e0, drop 0.0000e0, punt 0.0000e0
     Name     State     Calls     Vectors     Suspends     Clocks     Vectors/Call
api-rx-from-ring     any wait     0     0     18     1.97e5     0.00
unix-epoll-input     polling     9631     0     0     1.12e3     0.00
---------------
Thread 1 vpp_wk_0 (lcore 2)
Time 9.9, 10 sec internal node vector rate 245.13 loops/sec 19211.01
  vector rates in 4.7117e6, out 4.7117e6, drop 1.0000e0, punt 0.0000e0
     Name     State     Calls     Vectors     Suspends     Clocks     Vectors/Call
dpdk-input     polling     190000     46646200     0     6.21e1     245.51
ip4-lookup     active     190000     46646200     0     3.02e1     245.51
ip4-rewrite     active     190000     46646200     0     2.88e1     245.51
"""


def test_runtime_has_the_clocks_of_each_node_by_thread() -> None:
    found = parse_runtime(RUNTIME)

    assert ["vpp_wk_0"] == list(found)
    assert ["dpdk-input", "ip4-lookup", "ip4-rewrite"] == list(found["vpp_wk_0"])
    assert {
        "calls": 190000,
        "packets": 46646200,
        "clocks_per_packet": 62.1,
        "packets_per_call": 245.51,
    } == found["vpp_wk_0"]["dpdk-input"]


def test_runtime_without_workers_is_that_of_the_main_thread() -> None:
    text = RUNTIME.partition("Thread 1 vpp_wk_0 (lcore 2)\n")[2]

    assert ["vpp_main"] == list(parse_runtime(text))


def test_runtimes_of_two_periods_are_added() -> None:
    first = {"calls": 10, "packets": 900, "clocks_per_packet": 30.0, "packets_per_call": 90.0}
    second = {"calls": 10, "packets": 100, "clocks_per_packet": 50.0, "packets_per_call": 10.0}

    found = add_runtimes({"vpp_wk_0": {"ip4-lookup": first}}, {"vpp_wk_0": {"ip4-lookup": second}})

    together = {"calls": 20, "packets": 1000, "clocks_per_packet": 32.0, "packets_per_call": 50.0}
    assert {"vpp_wk_0": {"ip4-lookup": together}} == found
    assert found == add_runtimes({}, found) == add_runtimes(found, {})


def test_errors_of_a_trial_are_those_that_were_not_counted_before() -> None:
    old = {"node": "ip4-input", "reason": "ip4 ttl <= 1", "count": 5}
    more = {**old, "count": 7}
    new = {"node": "arp-input", "reason": "ARP replies sent", "count": 1}

    assert [{**old, "count": 2}, new] == subtract_errors([more, new], [old])
    assert [] == subtract_errors([old], [old])


def test_clocks_per_packet_are_the_mean_over_the_packets_of_all_threads() -> None:
    runtime = {
        "vpp_main": {"arp-reply": {"packets": 9, "clocks_per_packet": 5000.0}},
        "vpp_wk_0": {"ip4-lookup": {"packets": 900, "clocks_per_packet": 30.0}},
        "vpp_wk_1": {
            "ip4-lookup": {"packets": 100, "clocks_per_packet": 50.0},
            "ip4-drop": {"packets": 10, "clocks_per_packet": 70.0},
        },
    }

    assert {"ip4-lookup": 32.0, "ip4-drop": 70.0} == clocks_per_packet(runtime)
    assert {} == clocks_per_packet({})


def test_errors_of_a_reason_are_added_over_the_threads() -> None:
    text = """\
  Count                  Node                              Reason               Severity
         3             ip4-input                        ip4 ttl <= 1               error
         4             ip4-input                        ip4 ttl <= 1               error
        12         null-node                        blackholed packets              error
"""

    assert [
        {"node": "ip4-input", "reason": "ip4 ttl <= 1", "count": 7},
        {"node": "null-node", "reason": "blackholed packets", "count": 12},
    ] == parse_errors(text)


def test_errors_of_older_releases_have_no_severity() -> None:
    text = """\
   Count                    Node                  Reason
         1                arp-input               ARP replies sent
"""

    assert [{"node": "arp-input", "reason": "ARP replies sent", "count": 1}] == parse_errors(text)


def test_interfaces_have_their_counters() -> None:
    text = """\
              Name               Idx    State  MTU (L3/IP4/IP6/MPLS)     Counter          Count
local0                            0     down          0/0/0/0
port0                             1      up          9000/0/0/0     rx packets                  46646200
                                                                    rx bytes                  2798772000
                                                                    rx-miss                         1213
port1                             2      up          9000/0/0/0     tx packets                  46646200
"""

    assert {
        "local0": {},
        "port0": {"rx packets": 46646200, "rx bytes": 2798772000, "rx-miss": 1213},
        "port1": {"tx packets": 46646200},
    } == parse_interfaces(text)


def test_nothing_is_found_in_other_text() -> None:
    assert ({}, [], {}) == (parse_runtime("no such command\n"), parse_errors("\n"), parse_interfaces(""))
