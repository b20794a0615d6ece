"""Sound and video in and out: decoding, resampling, encoders, mp4 files and fragments, finished results."""
