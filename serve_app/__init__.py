"""The application: command line, typed configuration, HTTP ingress."""
