"""A LiveAnchor presenter for Pipecat. `LiveAnchorVideoService` needs Pipecat; the parts under it do not."""
