import unittest
def f(x): raise unittest.SkipTest('skipped')
