"""The generated tasks: their problems, worked examples of varying quality, and which of them are held out.

Not covered: models and their warm start (the modules above).
"""
