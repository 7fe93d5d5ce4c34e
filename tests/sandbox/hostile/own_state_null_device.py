import os
count = 0
for path in ('/dev/null', '/dev/zero', '/dev/urandom', os.__file__, os.path.dirname(os.__file__)):
    try:
        info = os.stat(path)
        count += info.st_mtime_ns + info.st_atime_ns + info.st_mode
        with open(path, 'r+b') as file: file.write(b'x')
    except OSError: pass
    for change in (lambda: os.utime(path, ns=(1, 1)), lambda: os.chmod(path, 0o600), lambda: os.setxattr(path, 'user.x', b'1'), lambda: open(path, 'rb').read(1)):
        try: change()
        except (OSError, AttributeError): pass
print(count)
def f(x): return 0
