*** Settings ***
Documentation    L2 bridging with learning in a VLAN: critical load.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     4 hours
Test Template    Critical Load Is Estimated

Test Tags        SOAK    dot1q-l2bdbasemaclrn


*** Test Cases ***
64b-1c-dot1q-l2bdbasemaclrn-soak
    [Tags]    64B    1C
    64B    cores=1    forwarding=l2    vlan=100
64b-2c-dot1q-l2bdbasemaclrn-soak
    [Tags]    64B    2C
    64B    cores=2    forwarding=l2    vlan=100
64b-4c-dot1q-l2bdbasemaclrn-soak
    [Tags]    64B    4C
    64B    cores=4    forwarding=l2    vlan=100
1518b-1c-dot1q-l2bdbasemaclrn-soak
    [Tags]    1518B    1C
    1518B    cores=1    forwarding=l2    vlan=100
1518b-2c-dot1q-l2bdbasemaclrn-soak
    [Tags]    1518B    2C
    1518B    cores=2    forwarding=l2    vlan=100
1518b-4c-dot1q-l2bdbasemaclrn-soak
    [Tags]    1518B    4C
    1518B    cores=4    forwarding=l2    vlan=100
imix-1c-dot1q-l2bdbasemaclrn-soak
    [Tags]    IMIX    1C
    IMIX    cores=1    forwarding=l2    vlan=100
imix-2c-dot1q-l2bdbasemaclrn-soak
    [Tags]    IMIX    2C
    IMIX    cores=2    forwarding=l2    vlan=100
imix-4c-dot1q-l2bdbasemaclrn-soak
    [Tags]    IMIX    4C
    IMIX    cores=4    forwarding=l2    vlan=100
