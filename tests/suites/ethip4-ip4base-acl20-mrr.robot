*** Settings ***
Documentation    IPv4 forwarding behind an access list of 20 rules: maximum receive rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     10 minutes
Test Template    Maximum Receive Rate Is Measured

Test Tags        MRR    1C    ethip4-ip4base-acl20


*** Test Cases ***
64b-1c-ethip4-ip4base-acl20-mrr
    [Tags]    64B
    64B    forwarding=ip4    acl_rules=20
1518b-1c-ethip4-ip4base-acl20-mrr
    [Tags]    1518B
    1518B    forwarding=ip4    acl_rules=20
imix-1c-ethip4-ip4base-acl20-mrr
    [Tags]    IMIX
    IMIX    forwarding=ip4    acl_rules=20
