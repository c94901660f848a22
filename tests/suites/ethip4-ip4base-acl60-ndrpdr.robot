*** Settings ***
Documentation    IPv4 forwarding behind an access list of 60 rules: non drop rate and partial drop rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     40 minutes
Test Template    Non Drop And Partial Drop Rate Are Found

Test Tags        NDRPDR    1C    ethip4-ip4base-acl60


*** Test Cases ***
64b-1c-ethip4-ip4base-acl60-ndrpdr
    [Tags]    64B
    64B    forwarding=ip4    acl_rules=60
1518b-1c-ethip4-ip4base-acl60-ndrpdr
    [Tags]    1518B
    1518B    forwarding=ip4    acl_rules=60
imix-1c-ethip4-ip4base-acl60-ndrpdr
    [Tags]    IMIX
    IMIX    forwarding=ip4    acl_rules=60
