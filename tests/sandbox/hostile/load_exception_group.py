class X(BaseException):
    __slots__ = ()
    def __str__(self): raise MemoryError
raise X
