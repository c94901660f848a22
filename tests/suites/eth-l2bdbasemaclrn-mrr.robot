*** Settings ***
Documentation    L2 bridging with learning: maximum receive rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     10 minutes
Test Template    Maximum Receive Rate Is Measured

Test Tags        MRR    1C    eth-l2bdbasemaclrn


*** Test Cases ***
64b-1c-eth-l2bdbasemaclrn-mrr
    [Tags]    64B
    64B    forwarding=l2
1518b-1c-eth-l2bdbasemaclrn-mrr
    [Tags]    1518B
    1518B    forwarding=l2
imix-1c-eth-l2bdbasemaclrn-mrr
    [Tags]    IMIX
    IMIX    forwarding=l2
