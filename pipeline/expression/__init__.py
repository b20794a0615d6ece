"""What a face expresses besides speech: a timeline of looks, how callers spell one, and how a session lays it over motion."""
