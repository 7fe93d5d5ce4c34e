class Code:
    def __bool__(self): raise MemoryError
raise SystemExit(Code())
