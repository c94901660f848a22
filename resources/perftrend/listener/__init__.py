"""The listener: starts jobs that are requested by comments in Gerrit, and replies to the comments.

Events of Gerrit only name the changes to read. Requests are read from the comments themselves and stored.
They are then processed in steps; if the listener is killed between two steps, no request is lost, started
twice or answered twice.
"""
