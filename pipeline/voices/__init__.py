"""Text -> voice: sentences, the embedded voice, servers of the `/v1/audio/speech` convention, captions."""
