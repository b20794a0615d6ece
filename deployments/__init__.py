"""Ray Serve: `graph` runs and calls the stages of `pipeline`; `host` keeps file jobs, live sessions and avatars in `SessionHost`.

Decided in `graph`: where a stage runs, which replica gets a call, what is batched, when a call is made again, how many sets there
are. Decided in `host`: who is let in, and what one process keeps. What is heard and seen is computed in `pipeline` and below.
"""
