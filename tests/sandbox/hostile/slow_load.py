import json, os, struct, time
body = json.dumps({'loaded': ['s', [['i', hex(i * (2**61 - 1))] for i in range(80000)]]}).encode()
body = struct.pack('<I', len(body)) + body
while body: body = body[os.write(3, body):]
def f(x): return 0
