*** Settings ***
Documentation    IPv4 forwarding while 10,000 routes are added: lost packets and time without service.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     40 minutes
Test Template    Routes Are Added Under Traffic

Test Tags        RECONF    1C    ethip4-ip4base-addroutes


*** Test Cases ***
64b-1c-ethip4-ip4base-addroutes-reconf
    [Tags]    64B
    64B    cores=1    routes=10000    forwarding=ip4    acl_rules=0
1518b-1c-ethip4-ip4base-addroutes-reconf
    [Tags]    1518B
    1518B    cores=1    routes=10000    forwarding=ip4    acl_rules=0
imix-1c-ethip4-ip4base-addroutes-reconf
    [Tags]    IMIX
    IMIX    cores=1    routes=10000    forwarding=ip4    acl_rules=0
