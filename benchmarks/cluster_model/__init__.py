"""A discrete-event model of the service: shared GPUs, stages that batch, sessions with deadlines, placement, admission."""
