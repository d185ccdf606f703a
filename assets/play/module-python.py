"""A Python for Ansible's modules that has Ansible's library loaded already.

A module brings that library along in source, as its host need not have it, and compiles it at every task: half of what a small task
takes. The playground's hosts are folders on the machine that Ansible itself runs on, so the compiled library is at hand.

It is called as Python is: with a module as a file, or on standard input.
"""

import sys
from importlib.machinery import PathFinder

import ansible.module_utils._internal._ansiballz._loader  # noqa: F401  what every module loads


class Brought:
    """Finds what the module brought along: by then it is first on the path."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if not name.startswith("ansible."):
            return None
        return PathFinder.find_spec(name, [sys.path[0] + "/" + name.rpartition(".")[0].replace(".", "/")])


class Modules(Brought):
    """Modules always come from what was brought along: a policy may have some of its own."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return Brought.find_spec(name) if name == "ansible.modules" else None


sys.meta_path.insert(0, Modules)
# A library of the policy's own, which is not installed.
sys.meta_path.append(Brought)

del sys.argv[0]
if sys.argv:
    with open(sys.argv[0], "rb") as module:
        source = module.read()
else:
    sys.argv = [""]
    source = sys.stdin.buffer.read()
exec(compile(source, sys.argv[0] or "<stdin>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})
