"""Runs live sessions over any `pipeline.stages.Stages`: clock, idle, speech, interruption and end, without any transport."""
