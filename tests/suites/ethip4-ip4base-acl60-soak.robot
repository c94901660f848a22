*** Settings ***
Documentation    IPv4 forwarding behind an access list of 60 rules: critical load.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     4 hours
Test Template    Critical Load Is Estimated

Test Tags        SOAK    1C    ethip4-ip4base-acl60


*** Test Cases ***
64b-1c-ethip4-ip4base-acl60-soak
    [Tags]    64B
    64B    forwarding=ip4    acl_rules=60
1518b-1c-ethip4-ip4base-acl60-soak
    [Tags]    1518B
    1518B    forwarding=ip4    acl_rules=60
imix-1c-ethip4-ip4base-acl60-soak
    [Tags]    IMIX
    IMIX    forwarding=ip4    acl_rules=60
