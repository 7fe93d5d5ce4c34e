import sys, threading
class A: x = 3
def trace(frame, event, argument):
    if frame.f_code.co_filename == '<test>' and event == 'line' and frame.f_lineno == 2: frame.f_lineno = 3
    return trace
sys.settrace(trace)
sys.setprofile(lambda *a: None)
