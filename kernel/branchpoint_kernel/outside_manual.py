"""The magics of the outside world: what may leave, what has left, what it cost, ports and files."""

from branchpoint_kernel.magic import Magic, Takes

OUTSIDE = (
    Magic(
        name="egress",
        usage=(
            "%egress [allow|deny NAME...] [--port N] [--method GET,POST] [--private] [--inspect] "
            "[--branch NAME|all]"
        ),
        summary="Show what may leave this branch's machine, and open or close it.",
        details=(
            "At first nothing may. NAME is a host, HOST:PORT, *.SUFFIX for all below it, or a\n"
            "group: pip and apt stand for the registries this computer itself uses.\n"
            "Without --port it is ports 80 and 443. --method lets only those requests pass;\n"
            "--private lets the name lead to this computer or its own networks; --inspect ends\n"
            "HTTPS on this computer, so that the ledger sees what is inside.\n"
            "A fork begins with what its parent may. Without a NAME: what is open, and what was\n"
            "refused last. Not from inside a machine.\n\n"
            "    %egress allow pip\n"
            "    %egress allow api.example.org --method GET,HEAD\n"
            "    %egress allow host.internal:11434 --private     a server on this computer\n"
            "    %egress deny api.example.org --branch all"
        ),
        takes=Takes.NOTHING,
        actions={"allow": Takes.TO_ALLOW, "deny": Takes.TO_DENY},
        flags={
            "--port": Takes.NUMBER,
            "--method": Takes.TEXT,
            "--private": Takes.NOTHING,
            "--inspect": Takes.NOTHING,
            "--branch": Takes.BRANCH_OR_ALL,
        },
    ),
    Magic(
        name="secrets",
        usage=(
            "%secrets [add|remove NAME] [--host HOST,...] [--header TEXT|none] "
            "[--from env:VARIABLE|file:PATH|prompt]"
        ),
        summary="Bind a secret to a host: it is added to requests on their way out.",
        details=(
            "Machines never hold it: there, the variable NAME is a placeholder that is worth\n"
            "nothing elsewhere. The value is read on this computer: from its variable NAME if\n"
            "there is one, else you are asked. --from says where instead. It is sent in the\n"
            "header 'Authorization: Bearer {}', or in another where {} stands for it; with\n"
            "--header none only where a request bears the placeholder.\n"
            "Without a NAME: the secrets there are, never a value. Not from inside a machine.\n\n"
            "    %secrets add API_KEY --host api.example.org\n"
            "    %secrets add TOKEN --host api.example.org --header 'X-Token: {}' --from file:tok\n"
            "    %secrets remove TOKEN"
        ),
        takes=Takes.NOTHING,
        actions={"add": Takes.TEXT, "remove": Takes.SECRET},
        flags={"--host": Takes.TEXT, "--header": Takes.TEXT, "--from": Takes.SOURCE},
    ),
    Magic(
        name="ledger",
        usage="%ledger [--since CHECKPOINT] [--branch NAME] [--all] [--accept KEY] [--retry KEY]",
        summary="List what has left the machines of this notebook, and what was refused.",
        details=(
            "The newest is last; --all shows more than the last 50. What was cut off under a\n"
            "key is unknown, and is not done again by itself: look at the other side, then\n"
            "--accept KEY says that it took place, --retry KEY that it may be done again.\n"
            "Those two not from inside a machine.\n\n"
            "    %ledger --since loaded\n"
            "    %ledger --accept order-42"
        ),
        takes=Takes.NOTHING,
        flags={
            "--since": Takes.CHECKPOINT,
            "--branch": Takes.BRANCH,
            "--all": Takes.NOTHING,
            "--accept": Takes.KEY,
            "--retry": Takes.KEY,
        },
    ),
    Magic(
        name="costs",
        usage="%costs [--csv FILE [--force]] [--raise NAME=VALUE]",
        summary="Show what each branch has cost: time, memory, disk, requests, tokens, money.",
        details=(
            "Then the limits, and what is left of them; then charts: what each branch has cost,\n"
            "and how long each operation took. --csv writes FILE, a row for each operation, and\n"
            "beside it FILE-branches, a row for each branch, into the notebook's folder unless\n"
            "FILE says where. What an earlier %costs wrote is replaced, another file only with\n"
            "--force. --raise sets a limit for this session: tokens, money, forks or time.\n"
            "Those two not from inside a machine, which is shown no charts either.\n\n"
            "    %costs\n"
            "    %costs --csv costs.csv                          costs-branches.csv too\n"
            "    %costs --raise tokens=400000"
        ),
        takes=Takes.NOTHING,
        flags={"--csv": Takes.HOST_FILE, "--force": Takes.NOTHING, "--raise": Takes.LIMIT},
    ),
    Magic(
        name="forward",
        usage="%forward [PORT] [--to HOSTPORT] [--branch NAME] [--stop]",
        summary="Reach a port of the machine at 127.0.0.1 of this computer.",
        details=(
            "It is a free port there, or HOSTPORT. It leads to whichever branch the notebook\n"
            "continues as, or to the branch NAME alone, and survives rollbacks. Without PORT:\n"
            "the forwards there are. --stop ends one.\n\n"
            "    %forward 8000\n"
            "    %forward 8000 --to 9000 --branch ridge\n"
            "    %forward 8000 --stop"
        ),
        takes=Takes.NUMBER,
        flags={"--to": Takes.NUMBER, "--branch": Takes.BRANCH, "--stop": Takes.NOTHING},
    ),
    Magic(
        name="put",
        usage="%put FILE... [--to PATH]",
        summary="Copy files of this computer into the machine.",
        details=(
            "FILE is relative to the notebook's folder, and may be a pattern. In the machine\n"
            "they are put into /root under their own names, or at PATH: a folder if it ends\n"
            "with a slash or there are several. Each appears whole or not at all.\n\n"
            "    %put train.csv\n"
            "    %put data/*.csv --to data/"
        ),
        takes=Takes.HOST_FILE,
        flags={"--to": Takes.FILE},
    ),
    Magic(
        name="get",
        usage="%get FILE... [--to PATH]",
        summary="Copy files out of the machine to this computer.",
        details=(
            "FILE is relative to /root. They are put into the notebook's folder under their\n"
            "own names, or at PATH: a folder if it ends with a slash or there are several.\n"
            "Each appears whole or not at all; one of that name is replaced.\n\n"
            "    %get model.bin\n"
            "    %get model.bin --to results/"
        ),
        takes=Takes.FILE,
        flags={"--to": Takes.HOST_FILE},
    ),
)
