"""`ctrlab fleet`: several servers behind one address."""

from __future__ import annotations

import os
import secrets
import shlex
from typing import Annotated

import typer

from ctrlab.cli.app import console, duration
from ctrlab.cli.serve import TOKEN, require_extra
from ctrlab.errors import CtrlabError


def command(
    arms: Annotated[
        list[str], typer.Argument(help="A folder of models; or the arms of an A/B test: control=models:90 new=others:10.")
    ],
    instances: Annotated[int, typer.Option(min=1, max=1000, help="Servers of each arm.")] = 2,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of HTTP; 0 for any.")] = 8501,
    host: Annotated[str, typer.Option(help="The address to listen on; instances listen on loopback.")] = "127.0.0.1",
    token: Annotated[bool, typer.Option(help="Ask clients for a token: CTRLAB_TOKEN's, or a new one that is printed.")] = True,
    experiment: Annotated[str, typer.Option(help="The A/B test's name: another one draws other users for its arms.")] = "",
    cpus: Annotated[
        str, typer.Option(help="The CPUs of each instance, such as 0-3;4-7, or auto: by core and NUMA node; else all have all.")
    ] = "",
    serve: Annotated[str, typer.Option(help='Options of each instance\'s `ctrlab serve`, such as "--batch-rows 64".')] = "",
    within: Annotated[str, typer.Option(help="A request is answered in this time, with its second try, or refused.")] = "30s",
    start: Annotated[str, typer.Option(help="For how long an instance may start.")] = "5m",
    drain: Annotated[str, typer.Option(help="For how long requests inside are waited for when an instance is stopped.")] = "5m",
) -> None:
    """Serve models by several `ctrlab serve` behind one address, over HTTP, and start them again when they crash.

    A request goes to the instance with the fewest inside. If that ends before it has answered, another one is asked.
    SIGHUP replaces the processes one after the other; SIGTERM drains and stops all of them.

    - `ctrlab fleet models --instances 3`
    - `ctrlab fleet control=models:90 new=others:10 --experiment ranking-7`
    """
    limits = {"start": duration("--start", start), "drain": duration("--drain", drain)}
    seconds = duration("--within", within)
    require_extra()
    from ctrlab.fleet.instances import run
    from ctrlab.fleet.instances.plan import Plan, arms_of
    from ctrlab.fleet.instances.supervisor import Patience
    from ctrlab.server.listening import bracketed
    from ctrlab.server.logs import write_json_lines

    try:
        options = shlex.split(serve)
    except ValueError as problem:
        raise CtrlabError(f"--serve takes options as a shell does; received {serve}: {str(problem).lower()}.") from None
    folders, percent = arms_of(arms)
    secret = (os.environ.get(TOKEN) or secrets.token_urlsafe(24)) if token else ""
    shape = {"percent": percent, "experiment": experiment, "instances": instances, "cpus": cpus}
    plan = Plan(folders, **shape, token=secret, options=options, seconds=seconds, patience=Patience(**limits))
    out = console()
    write_json_lines()

    def ready(http: int) -> None:
        count = f"{instances} instances" + (f" of each of {', '.join(folders)}" if len(folders) > 1 else "")
        out.print(f"HTTP on http://{bracketed(host.strip('[]'))}:{http}, {count}", markup=False, soft_wrap=True)
        if token and not os.environ.get(TOKEN):
            out.print(f"Token: {secret}", markup=False, soft_wrap=True)

    if cut := run.serve(plan, host, port, ready):
        raise CtrlabError(
            f"A fleet that is stopped answers what is inside; {cut} requests were not answered within {drain}: "
            "give it more time by --drain."
        )
    out.print("Stopped; every request was answered.")
