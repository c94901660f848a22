*** Settings ***
Documentation    IPv4 forwarding: non drop rate and partial drop rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     40 minutes
Test Template    Non Drop And Partial Drop Rate Are Found

Test Tags        NDRPDR    ethip4-ip4base


*** Test Cases ***
64b-1c-ethip4-ip4base-ndrpdr
    [Tags]    64B    1C
    64B    cores=1    forwarding=ip4    acl_rules=0
64b-2c-ethip4-ip4base-ndrpdr
    [Tags]    64B    2C
    64B    cores=2    forwarding=ip4    acl_rules=0
64b-4c-ethip4-ip4base-ndrpdr
    [Tags]    64B    4C
    64B    cores=4    forwarding=ip4    acl_rules=0
1518b-1c-ethip4-ip4base-ndrpdr
    [Tags]    1518B    1C
    1518B    cores=1    forwarding=ip4    acl_rules=0
1518b-2c-ethip4-ip4base-ndrpdr
    [Tags]    1518B    2C
    1518B    cores=2    forwarding=ip4    acl_rules=0
1518b-4c-ethip4-ip4base-ndrpdr
    [Tags]    1518B    4C
    1518B    cores=4    forwarding=ip4    acl_rules=0
imix-1c-ethip4-ip4base-ndrpdr
    [Tags]    IMIX    1C
    IMIX    cores=1    forwarding=ip4    acl_rules=0
imix-2c-ethip4-ip4base-ndrpdr
    [Tags]    IMIX    2C
    IMIX    cores=2    forwarding=ip4    acl_rules=0
imix-4c-ethip4-ip4base-ndrpdr
    [Tags]    IMIX    4C
    IMIX    cores=4    forwarding=ip4    acl_rules=0
9000b-1c-ethip4-ip4base-ndrpdr
    [Tags]    9000B    1C
    9000B    cores=1    forwarding=ip4    acl_rules=0
9000b-2c-ethip4-ip4base-ndrpdr
    [Tags]    9000B    2C
    9000B    cores=2    forwarding=ip4    acl_rules=0
9000b-4c-ethip4-ip4base-ndrpdr
    [Tags]    9000B    4C
    9000B    cores=4    forwarding=ip4    acl_rules=0
