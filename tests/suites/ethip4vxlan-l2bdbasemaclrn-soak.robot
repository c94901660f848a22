*** Settings ***
Documentation    L2 bridging with learning between VXLAN tunnels: critical load.

Resource         perftrend/keywords/forwarding.resource

Test Timeout     4 hours
Test Template    Critical Load Is Estimated

Test Tags        SOAK    ethip4vxlan-l2bdbasemaclrn


*** Test Cases ***
114b-1c-ethip4vxlan-l2bdbasemaclrn-soak
    [Tags]    114B    1C
    114B    cores=1    forwarding=l2    tunnel=vxlan
114b-2c-ethip4vxlan-l2bdbasemaclrn-soak
    [Tags]    114B    2C
    114B    cores=2    forwarding=l2    tunnel=vxlan
114b-4c-ethip4vxlan-l2bdbasemaclrn-soak
    [Tags]    114B    4C
    114B    cores=4    forwarding=l2    tunnel=vxlan
1518b-1c-ethip4vxlan-l2bdbasemaclrn-soak
    [Tags]    1518B    1C
    1518B    cores=1    forwarding=l2    tunnel=vxlan
1518b-2c-ethip4vxlan-l2bdbasemaclrn-soak
    [Tags]    1518B    2C
    1518B    cores=2    forwarding=l2    tunnel=vxlan
1518b-4c-ethip4vxlan-l2bdbasemaclrn-soak
    [Tags]    1518B    4C
    1518B    cores=4    forwarding=l2    tunnel=vxlan
