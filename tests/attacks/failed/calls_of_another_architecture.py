"""Makes its system calls as a 32-bit program does (int 0x80) and by the numbers of x32, past a filter of numbers."""

from syscalls import trying

EXERCISE = "where"
submission = trying(
    """
import mmap

read, write = os.pipe()
if os.fork() == 0:  # where there are no such calls this child dies
    if platform.machine() == "x86_64":
        for number in (286, 20):  # of i386: add_key, getpid
            code = b"\\x53\\xb8" + number.to_bytes(4, "little") + bytes.fromhex("31db 31c9 31d2 cd80 5b c3")
            prot = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
            memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=prot)
            memory.write(code)
            answer = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))()
            if answer > 0 or answer == -14:  # done, or refused for its arguments only
                os.write(write, b"i386 ")
        if _libc.syscall(ctypes.c_long(0x40000000 | 39)) > 0:  # getpid
            os.write(write, b"x32 ")
    os._exit(0)
os.close(write)
os.wait()
GOT += os.read(read, 100).split()
"""
)
