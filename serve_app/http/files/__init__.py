"""Video files over HTTP: jobs, results, byte ranges."""
