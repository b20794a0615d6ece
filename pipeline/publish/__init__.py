"""Publishing a session to ingests of others, which hand it on to any number of viewers."""
