"""Cells that are run on stock ipykernel and on ours, by what each shows: a tuple is several."""

CELLS: dict[str, str | tuple[str, ...]] = {
    "a print": "print('hello')",
    "a print without a line end": "print('no end', end='')",
    "a print to stderr": "import sys; print('bad', file=sys.stderr)",
    "stdout and stderr in turn": (
        "import sys\n"
        "for n in range(3):\n"
        "    print('out', n, flush=True)\n"
        "    print('err', n, file=sys.stderr, flush=True)"
    ),
    "carriage returns and backspaces": "print('10%\\r20%\\r30%'); print('ab\\bc')",
    "colours": "print('\\x1b[31mred\\x1b[0m \\x1b[38;5;208morange\\x1b[0m')",
    "many small prints": "for n in range(5000): print(n)",
    "one long line": "print('x' * 1_000_000)",
    "unicode": "print('ñ 漢字 \U0001f600 \u202e \\u0000'); 'ñ 漢字 \U0001f600'",
    "a lone surrogate in a result": "'\\ud800'",
    "a huge integer": "2 ** 10_000",
    "an integer over the limit of digits": "10 ** 5000",
    "an empty cell": "",
    "a comment alone": "# nothing",
    "a result": "40 + 2",
    "a result kept from view": "40 + 2;",
    "None shows nothing": "None",
    "a long list is wrapped": "list(range(200))",
    "a nested structure is pretty": "{'a': {'b': [list(range(30)), (1,), {2}]}, 'c': 'x' * 90}",
    "In, Out and their short names": ("6 * 7", "_ + 1", "__, ___", "Out[len(In) - 4], In[-2], _i"),
    "a display of text": "display('text', 1, None)",
    "displays of every kind": (
        "from IPython.display import *\n"
        "display(HTML('<b>h</b>'), Markdown('*m*'), Latex('$l$'), JSON({'a': [1]}),\n"
        "        Javascript('1'), SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>'), Math('x'),\n"
        "        Image(b'\\x89PNG\\r\\n', format='png'), Code('x = 1', language='python'))"
    ),
    "a raw display with metadata": (
        "display({'text/plain': 'p', 'application/x-own+json': {'k': [1, None]}},\n"
        "        metadata={'application/x-own+json': {'wide': True}}, raw=True)"
    ),
    "a display that is updated": (
        "handle = display('first', display_id='one'); handle.update('second')",
        "handle.update('third'); display('fourth', display_id='one', update=True)",
    ),
    "a display id made up": "display('first', display_id=True).update('second')",
    "clear_output at once and waiting": (
        "from IPython.display import clear_output\n"
        "print('gone', flush=True); clear_output(); print('kept', flush=True)\n"
        "clear_output(wait=True); print('last')"
    ),
    "rich representations": (
        "class Rich:\n"
        "    def __repr__(self): return 'plain'\n"
        "    def _repr_html_(self): return '<i>html</i>'\n"
        "    def _repr_latex_(self): return None\n"
        "    def _repr_png_(self): return b'png', {'width': 3}\n"
        "Rich()"
    ),
    "a mimebundle with metadata": (
        "class Bundle:\n"
        "    def _repr_mimebundle_(self, include, exclude):\n"
        "        return {'text/plain': 'p', 'x/y': [1]}, {'x/y': {'z': 2}}\n"
        "display(Bundle()); Bundle()"
    ),
    "a representation that raises": "class Bad:\n    def __repr__(self): 1/0\nBad()",
    "a rich representation that raises": (
        "class HalfBad:\n"
        "    def __repr__(self): return 'half'\n"
        "    def _repr_html_(self): raise ValueError('no html')\n"
        "HalfBad()"
    ),
    "captured output": (
        "%%capture kept\nprint('o'); import sys; print('e', file=sys.stderr); display('d'); 5",
        "kept.stdout, kept.stderr, len(kept.outputs)",
        "kept.show()",
    ),
    "an error": "1/0",
    "an error of a syntax": "x = = 1",
    "an error of indentation": "def f():\nreturn 1",
    "an incomplete cell": "for n in range(3):",
    "a name that is not there": "undefined_name",
    "an error in nested calls": (
        "def inner(n):\n    return 1 / n\ndef outer(n):\n    return inner(n)\nouter(0)"
    ),
    "an error across cells": ("def later(x):\n    return x['k']", "later({})"),
    "an error that was caused": (
        "try:\n    int('x')\nexcept ValueError as error:\n    raise KeyError('k') from error"
    ),
    "an error while handling another": (
        "try:\n    int('x')\nexcept ValueError:\n    raise KeyError('k')"
    ),
    "an error whose cause is hidden": (
        "try:\n    int('x')\nexcept ValueError:\n    raise KeyError('k') from None"
    ),
    "an error with notes": (
        "error = ValueError('noted'); error.add_note('first'); error.add_note('second')\n"
        "raise error"
    ),
    "a group of errors": "raise ExceptionGroup('several', [ValueError(1), KeyError('k')])",
    "an error in a library": "import json; json.loads('{')",
    "an error without words": "raise Exception",
    "an error whose words raise": (
        "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute()"
    ),
    "a deep recursion": (
        "def deep(n): return deep(n - 1) if n else 1 / n\ndeep(30)",
        "sys.setrecursionlimit(150); deep(150)",
        "sys.setrecursionlimit(3000)",
    ),
    "an assertion": "assert 1 == 2, 'they differ'",
    "a warning": "import warnings; warnings.warn('careful')",
    "output before an error": "print('before'); raise ValueError('after')",
    "a handler of the user's for errors": (
        "get_ipython().set_custom_exc((KeyError,), lambda *a, **k: print('handled', a[1]))\n",
        "{}['k']",
        "get_ipython().set_custom_exc((), None)",
    ),
    "sys.exit": "import sys; sys.exit('bye')",
    "raise SystemExit": "raise SystemExit(3)",
    "raise KeyboardInterrupt": "raise KeyboardInterrupt",
    "await at top level": (
        "import asyncio\nasync def give(): return 7",
        "await asyncio.sleep(0.01); await give()",
    ),
    "async with and for at top level": (
        "from contextlib import asynccontextmanager",
        "@asynccontextmanager\nasync def manage():\n    print('in'); yield 1; print('out')",
        "async def agen(n):\n    for i in range(n): yield i",
        "async with manage() as one:\n    print([n async for n in agen(3)])",
    ),
    "an error in an awaited function": "async def bad(): raise OSError(2, 'none')\nawait bad()",
    "a task from an earlier cell": (
        "task = asyncio.create_task(asyncio.sleep(0.01, 'slept'))",
        "await task",
    ),
    "a generator held between cells": (
        "squares = (n * n for n in range(5)); next(squares)",
        "next(squares), list(squares)",
    ),
    "a magic of time": "%time x = 5",
    "a cell's time": "%%time\nprint('timed')\n7",
    "timeit": "%timeit -n1 -r1 pass",
    "a cell of bash": "%%bash\necho out; echo err >&2; exit 3",
    "a cell of sh whose output is kept": ("%%sh --out said\necho kept", "said"),
    "a shell command": "!echo shell; echo more >&2",
    "a shell command's output assigned": "lines = !printf 'a\\nb\\n'\nlines, lines.n",
    "a shell command that fails": ("!exit 7", "_exit_code"),
    "a shell command with a variable": "word = 'spaced out'\n!echo {word} '$HOME' $$word",
    "a magic that is not there": "%nosuchmagic",
    "a magic used wrongly": "%timeit -n",
    "magics about files": (
        "%%writefile note.py\nloaded = 1",
        "%load note.py",
        "%run note.py",
        "loaded",
        "%pycat note.py",
        "import os; os.remove('note.py')",
    ),
    "a magic assigned": "where = %pwd\nwhere",
    "a magic in a loop": "for n in range(2):\n    %time n",
    "an alias of a folder": ("%cd -q /tmp", "%pwd", "%cd /root"),
    "a macro": ("%macro -q twice 1", "type(twice).__name__"),
    "history printed": "%history -l 2",
    "a namespace searched": ("needle_one = 1", "%who_ls int", "%psearch needle*"),
    "a variable deleted": ("%xdel needle_one", "needle_one"),
    "help of a function": "len?",
    "help of a function's source": (
        "def documented(a, b=2):\n    'What it does.'\n    return a",
        "documented??",
    ),
    "help of what is not there": "nothing_of_this_name?",
    "help of a magic": "%time?",
    "the next cell set": "get_ipython().set_next_input('y = 2'); print('set')",
    "output of a file descriptor": "import os, time; os.write(1, b'raw\\n'); time.sleep(1.5)",
    "output of a process": (
        "import subprocess\np = subprocess.run(['sh', '-c', 'echo child; sleep 1.5'])\np.returncode"
    ),
    "output of a forked process": (
        "import os, time\n"
        "if os.fork() == 0:\n    print('child', flush=True); time.sleep(0.5); os._exit(0)\n"
        "os.wait(); time.sleep(1); print('parent')"
    ),
    "the first stdout": "print('to the original', file=sys.__stdout__); print('to ours')",
    "stdout replaced": (
        "import io, contextlib\n"
        "with contextlib.redirect_stdout(io.StringIO()) as text: print('caught')\n"
        "text.getvalue()"
    ),
    "what stdout is": "import sys; sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.name",
    "bytes that are no text": "sys.stdout.buffer.write(b'x')",
    "a progress bar": (
        "import time\nfrom tqdm import tqdm\n"
        "for _ in tqdm(range(5), mininterval=0, bar_format='{l_bar}{bar}|{n}/{total}', ncols=40):\n"
        "    time.sleep(0.01)"
    ),
    "two figures without show": (
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplot = dict(figsize=(1, 1))",
        "for n in range(2):\n    fig, ax = plt.subplots(**plot); ax.plot([n, 1])\nprint('drawn')",
        "1 + 1",
        "plt.figure(figsize=(1, 1)); plt.plot([1]); plt.title('t'); plt.show(); print('after')",
        "plt.plot([1]); raise ValueError('with a figure open')",
        "plt.close('all')",
    ),
    "a figure as a value": (
        "fig = plt.figure(figsize=(1, 1)); plt.close(fig); fig",
        "display(fig)",
    ),
    "a frame of pandas": (
        "import pandas as pd\nframe = pd.DataFrame({'a': [1, 2], 'b': ['<x>', None]}); frame",
        "frame.describe(include='all')",
        "frame['none']",
    ),
    "an array of numpy": "import numpy as np\nnp.arange(2000).reshape(20, 100)",
    "widgets made, changed and shown": (
        "import ipywidgets\nslider = ipywidgets.IntSlider(3, max=9); slider",
        "slider.value = 5; slider.max = 50; slider.value",
        "with slider.hold_sync(): slider.value = 6; slider.description = 'held'",
        "box = ipywidgets.VBox([slider, ipywidgets.Label('l')]); display(box)",
        "slider.close(); box.close()",
    ),
    "a widget that takes output": (
        "taken = ipywidgets.Output(); taken",
        "with taken: print('inside'); display('shown')\nprint('outside')",
        "with taken: 1/0",
        "taken.clear_output(); taken.outputs",
    ),
    "a widget that takes a thread's output": (
        "def in_thread():\n    with taken: print('from a thread')",
        "import threading; t = threading.Thread(target=in_thread); t.start(); t.join()",
        "taken.outputs",
    ),
    "a widget that holds bytes": "ipywidgets.Image(value=bytes(range(256)))",
    "a name of the user's hides a function": ("print = 5", "print", "del print; print('back')"),
    "names in the namespace": "sorted(n for n in dir() if n in ('branch', 'In', 'exit', 'quit'))",
}
