import json, os, struct, time
def raw(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    body = struct.pack('<I', len(body)) + body
    while body: body = body[os.write(3, body):]
import sys
Server = sys.modules['worker.server'].Server
def call(self, request):
    raw(b'{"id":%d,"value":"\xf0\x9f\x98\x80' % request['id'] + b'x' * (60 << 20) + b'"}')
    return {'value': 0}
Server._call = call
def f(x): return 0
