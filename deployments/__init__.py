"""Ray Serve: `graph` puts stages on replicas; `host` keeps file jobs, live sessions and avatars in `SessionHost`."""
