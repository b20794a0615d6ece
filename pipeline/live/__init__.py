"""Live sessions: a clock, idle, speech, interruption and end, over any `pipeline.stages.Stages`, without any transport."""
