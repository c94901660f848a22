*** Settings ***
Documentation    IPv4 forwarding: critical load.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     4 hours
Test Template    Critical Load Is Estimated

Test Tags        SOAK    1C    ethip4-ip4base


*** Test Cases ***
64b-1c-ethip4-ip4base-soak
    [Tags]    64B
    64B    forwarding=ip4    acl_rules=0
1518b-1c-ethip4-ip4base-soak
    [Tags]    1518B
    1518B    forwarding=ip4    acl_rules=0
imix-1c-ethip4-ip4base-soak
    [Tags]    IMIX
    IMIX    forwarding=ip4    acl_rules=0
