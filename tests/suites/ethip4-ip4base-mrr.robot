*** Settings ***
Documentation    IPv4 forwarding: maximum receive rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     10 minutes
Test Template    Maximum Receive Rate Is Measured

Test Tags        MRR    1C    ethip4-ip4base


*** Test Cases ***
64b-1c-ethip4-ip4base-mrr
    [Tags]    64B
    64B    forwarding=ip4    acl_rules=0
1518b-1c-ethip4-ip4base-mrr
    [Tags]    1518B
    1518B    forwarding=ip4    acl_rules=0
imix-1c-ethip4-ip4base-mrr
    [Tags]    IMIX
    IMIX    forwarding=ip4    acl_rules=0
