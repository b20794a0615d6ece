"""HuBERT, the audio encoder of Ditto: the public ONNX file, and ways to run it."""
