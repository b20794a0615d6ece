"""A conversation with the presenter: the client's voice is listened to, a brain answers, and the presenter says the answer."""
