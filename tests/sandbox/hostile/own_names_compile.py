import builtins
original = compile
builtins.compile = lambda text, *a, **k: original('', *a, **k)
class A: x = 3
