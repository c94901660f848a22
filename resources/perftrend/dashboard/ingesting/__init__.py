"""Events that tell of builds: a signed webhook, and a folder that is watched."""
