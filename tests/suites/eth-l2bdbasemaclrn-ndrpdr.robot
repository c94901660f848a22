*** Settings ***
Documentation    L2 bridging with learning: non drop rate and partial drop rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     40 minutes
Test Template    Non Drop And Partial Drop Rate Are Found

Test Tags        NDRPDR    1C    eth-l2bdbasemaclrn


*** Test Cases ***
64b-1c-eth-l2bdbasemaclrn-ndrpdr
    [Tags]    64B
    64B    forwarding=l2
1518b-1c-eth-l2bdbasemaclrn-ndrpdr
    [Tags]    1518B
    1518B    forwarding=l2
imix-1c-eth-l2bdbasemaclrn-ndrpdr
    [Tags]    IMIX
    IMIX    forwarding=l2
