import json, os, struct, time
def raw(message):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    body = struct.pack('<I', len(body)) + body
    while body: body = body[os.write(3, body):]
raw({'loaded': True})
time.sleep(1000)
