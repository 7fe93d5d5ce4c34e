class A:
    def __init__(self):
        raise type('E', (Exception,), {'__str__': lambda self: 1 / 0, '__repr__': lambda self: 1 / 0})()
