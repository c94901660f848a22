*** Settings ***
Documentation    L2 bridging with learning: critical load.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     4 hours
Test Template    Critical Load Is Estimated

Test Tags        SOAK    1C    eth-l2bdbasemaclrn


*** Test Cases ***
64b-1c-eth-l2bdbasemaclrn-soak
    [Tags]    64B
    64B    forwarding=l2
1518b-1c-eth-l2bdbasemaclrn-soak
    [Tags]    1518B
    1518B    forwarding=l2
imix-1c-eth-l2bdbasemaclrn-soak
    [Tags]    IMIX
    IMIX    forwarding=l2
