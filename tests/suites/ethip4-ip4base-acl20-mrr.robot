*** Settings ***
Documentation    IPv4 forwarding behind an access list of 20 rules: maximum receive rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     10 minutes
Test Template    Maximum Receive Rate Is Measured

Test Tags        MRR    ethip4-ip4base-acl20


*** Test Cases ***
64b-1c-ethip4-ip4base-acl20-mrr
    [Tags]    64B    1C
    64B    cores=1    forwarding=ip4    acl_rules=20
64b-2c-ethip4-ip4base-acl20-mrr
    [Tags]    64B    2C
    64B    cores=2    forwarding=ip4    acl_rules=20
64b-4c-ethip4-ip4base-acl20-mrr
    [Tags]    64B    4C
    64B    cores=4    forwarding=ip4    acl_rules=20
1518b-1c-ethip4-ip4base-acl20-mrr
    [Tags]    1518B    1C
    1518B    cores=1    forwarding=ip4    acl_rules=20
1518b-2c-ethip4-ip4base-acl20-mrr
    [Tags]    1518B    2C
    1518B    cores=2    forwarding=ip4    acl_rules=20
1518b-4c-ethip4-ip4base-acl20-mrr
    [Tags]    1518B    4C
    1518B    cores=4    forwarding=ip4    acl_rules=20
imix-1c-ethip4-ip4base-acl20-mrr
    [Tags]    IMIX    1C
    IMIX    cores=1    forwarding=ip4    acl_rules=20
imix-2c-ethip4-ip4base-acl20-mrr
    [Tags]    IMIX    2C
    IMIX    cores=2    forwarding=ip4    acl_rules=20
imix-4c-ethip4-ip4base-acl20-mrr
    [Tags]    IMIX    4C
    IMIX    cores=4    forwarding=ip4    acl_rules=20
