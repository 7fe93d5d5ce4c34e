import builtins
builtins.exec = lambda *a, **k: None
class A: x = 3
