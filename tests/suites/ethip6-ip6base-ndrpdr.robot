*** Settings ***
Documentation    IPv6 forwarding: non drop rate and partial drop rate.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     40 minutes
Test Template    Non Drop And Partial Drop Rate Are Found

Test Tags        NDRPDR    ethip6-ip6base


*** Test Cases ***
78b-1c-ethip6-ip6base-ndrpdr
    [Tags]    78B    1C
    78B    cores=1    forwarding=ip6
78b-2c-ethip6-ip6base-ndrpdr
    [Tags]    78B    2C
    78B    cores=2    forwarding=ip6
78b-4c-ethip6-ip6base-ndrpdr
    [Tags]    78B    4C
    78B    cores=4    forwarding=ip6
1518b-1c-ethip6-ip6base-ndrpdr
    [Tags]    1518B    1C
    1518B    cores=1    forwarding=ip6
1518b-2c-ethip6-ip6base-ndrpdr
    [Tags]    1518B    2C
    1518B    cores=2    forwarding=ip6
1518b-4c-ethip6-ip6base-ndrpdr
    [Tags]    1518B    4C
    1518B    cores=4    forwarding=ip6
