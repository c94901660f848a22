*** Settings ***
Documentation     Performance tests of packet forwarding. ``generate.py`` beside this file writes the suites.

Resource          perftrend/keywords/forwarding.resource

Suite Setup       Open Testbed
Suite Teardown    Close Testbed
