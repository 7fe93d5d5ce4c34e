import json, os, struct, time
def raw(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    body = struct.pack('<I', len(body)) + body
    while body: body = body[os.write(3, body):]
for message in (b'[' * 5000, b'\xff', b'', b'{"phase": NaN}', {'error': ['MemoryError' * 99], 'text': '\ud800'}): raw(message)
