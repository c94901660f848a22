*** Settings ***
Documentation    IPv4 forwarding: non drop rate and partial drop rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     40 minutes
Test Template    Non Drop And Partial Drop Rate Are Found

Test Tags        NDRPDR    1C    ethip4-ip4base


*** Test Cases ***
64b-1c-ethip4-ip4base-ndrpdr
    [Tags]    64B
    64B    forwarding=ip4    acl_rules=0
1518b-1c-ethip4-ip4base-ndrpdr
    [Tags]    1518B
    1518B    forwarding=ip4    acl_rules=0
imix-1c-ethip4-ip4base-ndrpdr
    [Tags]    IMIX
    IMIX    forwarding=ip4    acl_rules=0
