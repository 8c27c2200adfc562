"""python -m fedfor"""

from .cli import main

main()
