import os, sys
class Thing:
    def value(self): sys.exit(0)
    def other(self): os._exit(0)
    def third(self): raise KeyboardInterrupt
