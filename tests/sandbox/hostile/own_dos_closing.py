import os
def f(x): os.closerange(0, 99)
