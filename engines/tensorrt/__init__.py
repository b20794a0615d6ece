"""TensorRT engines: export, build, cache, load, run, verify; the same code drives `tensorrt` and `tensorrt_rtx`.

`load.load_or_build` is the way in for a stage, `library.find_library` says what is installed here.
"""
