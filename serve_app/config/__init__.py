"""The configuration of the application, and the document that Ray Serve is given."""
