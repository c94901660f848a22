"""From a comment in Gerrit to a started job: what is asked, whether it may be, who runs it, what is answered.

The events of Gerrit only say where to look. What is asked is read from the comments themselves, kept in the
store, and goes from there to its end in steps that can be killed between any two: nothing is lost, started
twice or answered twice.
"""
