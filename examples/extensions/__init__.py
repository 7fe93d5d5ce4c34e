"""Files of your own, one for each kind of extension (docs/extending.md): copy one and name it in a profile.

Covered: an estimator, a loss, a KL controller, a grader, a reward design, an engine, a tracker. Not covered: reward
functions with TRL's or verl's signature (docs/your-own.md).
"""
