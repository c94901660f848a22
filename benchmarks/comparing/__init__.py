"""How well two builds are compared: false alarms, what is detected, and in how many rounds."""
