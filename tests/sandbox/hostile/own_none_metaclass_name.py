class Meta(type):
    @property
    def __name__(cls): raise KeyboardInterrupt
class Bad(Exception, metaclass=Meta): pass
def f(x): raise Bad
