"""Quality of the comparison of two builds: false alarms, detected differences, and rounds."""
