*** Settings ***
Documentation    L2 cross-connect, 2 receive queues at each port: non drop rate and partial drop rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     40 minutes
Test Template    Non Drop And Partial Drop Rate Are Found

Test Tags        NDRPDR    eth-l2xcbase-2rxq    rxq=2


*** Test Cases ***
64b-2c-eth-l2xcbase-2rxq-ndrpdr
    [Tags]    64B    2C
    64B    cores=2    forwarding=l2xc    receive_queues=2
64b-4c-eth-l2xcbase-2rxq-ndrpdr
    [Tags]    64B    4C
    64B    cores=4    forwarding=l2xc    receive_queues=2
