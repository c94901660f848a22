*** Settings ***
Documentation    IPv4 forwarding in a VLAN: maximum receive rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     10 minutes
Test Template    Maximum Receive Rate Is Measured

Test Tags        MRR    dot1q-ip4base


*** Test Cases ***
64b-1c-dot1q-ip4base-mrr
    [Tags]    64B    1C
    64B    cores=1    forwarding=ip4    vlan=100
64b-2c-dot1q-ip4base-mrr
    [Tags]    64B    2C
    64B    cores=2    forwarding=ip4    vlan=100
64b-4c-dot1q-ip4base-mrr
    [Tags]    64B    4C
    64B    cores=4    forwarding=ip4    vlan=100
1518b-1c-dot1q-ip4base-mrr
    [Tags]    1518B    1C
    1518B    cores=1    forwarding=ip4    vlan=100
1518b-2c-dot1q-ip4base-mrr
    [Tags]    1518B    2C
    1518B    cores=2    forwarding=ip4    vlan=100
1518b-4c-dot1q-ip4base-mrr
    [Tags]    1518B    4C
    1518B    cores=4    forwarding=ip4    vlan=100
imix-1c-dot1q-ip4base-mrr
    [Tags]    IMIX    1C
    IMIX    cores=1    forwarding=ip4    vlan=100
imix-2c-dot1q-ip4base-mrr
    [Tags]    IMIX    2C
    IMIX    cores=2    forwarding=ip4    vlan=100
imix-4c-dot1q-ip4base-mrr
    [Tags]    IMIX    4C
    IMIX    cores=4    forwarding=ip4    vlan=100
