"""Networks of the Ditto family (LivePortrait's renderer); state-dict names are those of the public checkpoints."""
