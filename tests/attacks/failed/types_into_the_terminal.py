"""Types commands into the terminal of whoever grades, and into one that it opened itself."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import fcntl

TIOCSTI, TIOCSCTTY, TIOCLINUX = 0x5412, 0x540E, 0x541C
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    terminals = list(os.openpty())
    for name in ("/dev/tty", "/dev/console", "/dev/pts/0", "/dev/tty1"):
        try:
            terminals.append(os.open(name, os.O_RDWR))
        except OSError:
            pass
    for terminal in terminals:
        for request, argument in ((TIOCSCTTY, 0), (TIOCSTI, b"x"), (TIOCLINUX, b"\\x02")):
            try:
                fcntl.ioctl(terminal, request, argument)
                if request != TIOCSCTTY:
                    os.write(write, b"typed ")
            except OSError:
                pass
    os._exit(0)
os.close(write)
os.wait()
GOT += os.read(read, 100).split()
"""
)
