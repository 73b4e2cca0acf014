"""`ctrlab serve`: a server for exported models."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated, Literal

import typer

from ctrlab.cli.app import console, duration, import_tensorflow
from ctrlab.errors import CtrlabError

TOKEN = "CTRLAB_TOKEN"
LONGEST_WAIT = 1_000_000
"""Microseconds: the processor's limit of batch_wait_micros."""


def command(
    folder: Annotated[Path, typer.Argument(help="A model's folder, as `ctrlab export` writes it, or a folder of such.")],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Of HTTP; 0 for any.")] = 8501,
    grpc_port: Annotated[int, typer.Option(min=0, max=65_535, help="Of gRPC; 0 for any.")] = 8500,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    token: Annotated[bool, typer.Option(help="Ask clients for a token: CTRLAB_TOKEN's, or a new one that is printed.")] = True,
    threads: Annotated[int | None, typer.Option(min=1, help="Requests inside at once; else one a core, 16 with batches.")] = None,
    members: Annotated[int, typer.Option(min=1, help="Of the session group that requests run in.")] = 1,
    policy: Annotated[
        Literal["round_robin", "by_model", "least_in_flight"],
        typer.Option(help="The member that a request runs in. By model: each model has threads of its own, too."),
    ] = "round_robin",
    member_threads: Annotated[int, typer.Option(min=0, max=4096, help="Of each member; 0: one for each of its CPUs.")] = 1,
    cpus: Annotated[
        str, typer.Option(help="The CPUs of each member, such as 0-3;4-7, or auto: by core and NUMA node; else all have all.")
    ] = "",
    dedicated: Annotated[
        list[str] | None, typer.Option(help="CPUs that a model has to itself, such as ctr=0-3; the other models share the rest.")
    ] = None,
    batch_rows: Annotated[
        int, typer.Option(min=0, max=1_000_000, help="Requests that come together are one call of so many rows; 0: not.")
    ] = 0,
    batch_wait: Annotated[str, typer.Option(help="For how long the first of them waits for others.")] = "1ms",
    most_waiting: Annotated[int, typer.Option(min=0, help="Requests that may wait beside them; more are refused at once.")] = 100,
    keep: Annotated[int, typer.Option(min=1, help="How many of the newest versions clients may ask for by number.")] = 1,
    most_slowdown: Annotated[
        float, typer.Option(min=0, max=1e9, help="A newer version may take so many times as long as the one that serves; 0: any.")
    ] = 10.0,
    most_memory: Annotated[
        float, typer.Option(min=0.001, max=1e6, help="GiB that the model may allocate for the rows of a request.")
    ] = 1.0,
    ignore_unknown: Annotated[
        bool, typer.Option(help="Leave out columns of a request that the model does not know; the log names them. Else refuse.")
    ] = False,
    drain: Annotated[str, typer.Option(help="For how long requests inside are waited for when the server is stopped.")] = "5m",
    log: Annotated[Path | None, typer.Option(help="Write what was scored to this folder, to train on.", file_okay=False)] = None,
    log_sample: Annotated[float, typer.Option(min=0, max=1, help="The share of the requests that is logged.")] = 1.0,
    log_every: Annotated[str, typer.Option(help="How long a file of the log is written.")] = "60s",
) -> None:
    """Serve exported models over HTTP and gRPC, with the versions and updates that come meanwhile.

    - `ctrlab serve models/`
    - `curl -H "Authorization: Bearer $CTRLAB_TOKEN" -d @request.json localhost:8501/v1/models/ctr:predict`
    """
    wait = round(1e6 * duration("--batch-wait", batch_wait))
    if wait > LONGEST_WAIT:
        raise CtrlabError(f"--batch-wait is at most 1s; received {batch_wait}.")
    if dedicated and (threads or members > 1 or cpus or policy != "round_robin" or member_threads != 1):
        raise CtrlabError(
            "--dedicated makes the members itself, one per CPU: leave out --threads, --members, --policy and --cpus."
        )
    drain_seconds = duration("--drain", drain)
    from ctrlab.server.members import group

    of_members = group(members, policy, cpus)
    require_extra()
    from ctrlab.server.application import require_token

    secret = (os.environ.get(TOKEN) or secrets.token_urlsafe(24)) if token else ""
    require_token(secret)
    import_tensorflow()
    from ctrlab.server.fronts import Address, serve
    from ctrlab.server.listening import bracketed
    from ctrlab.server.logs import write_json_lines
    from ctrlab.server.models import Models
    from ctrlab.server.request_log import RequestLog

    out = console()
    write_json_lines()
    configuration = {
        "batch_rows": batch_rows,
        "batch_wait_micros": wait,
        "most_slowdown": most_slowdown,
        "most_model_bytes": round(most_memory * 2**30),
        "ignore_unknown": ignore_unknown,
    }
    configuration |= {"intra_op_threads": member_threads, "group": of_members}
    waiting = {"threads": threads, "most_waiting": most_waiting, "dedicated": dedicated or ()}
    requests = RequestLog(log, log_sample, duration("--log-every", log_every)) if log else None
    models = Models(folder, **waiting, keep=keep, log=requests, **configuration)

    def ready(http: int, rpc: int) -> None:
        for name, served in models.served.items():
            for version, found in served.infos().items():
                labels = "".join(f", {label}" for label, of in served.labels.items() if of == version)
                out.print(f"{name}: version {version}, update {found['update']}{labels}", markup=False, soft_wrap=True)
        here = bracketed(host.strip("[]"))
        out.print(f"HTTP on http://{here}:{http}, gRPC on {here}:{rpc}", markup=False, soft_wrap=True)
        made = secret if token and not os.environ.get(TOKEN) else ""
        if made:
            out.print(f"Token: {made}", markup=False, soft_wrap=True)
        out.print(f"Charts: http://{here}:{http}/dashboard{made and '#' + made}", markup=False, soft_wrap=True)

    try:
        cut = serve(models, Address(host, port, grpc_port), secret, ready, drain_seconds)
    finally:
        models.close()
    if cut:
        raise CtrlabError(
            f"A server that is stopped answers what is inside; {cut} requests were not answered within {drain}: "
            "give it more time by --drain."
        )
    if requests and requests.left_out:
        raise CtrlabError(
            f"A log has the requests that were answered; {requests.left_out} of them are not in {log}: "
            "the lines above say why, and --log-sample takes a share of them."
        )
    out.print("Stopped; every request was answered.")


def require_extra() -> None:
    """Raises CtrlabError if the extra `serve` is missing."""
    try:
        import grpc  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as missing:
        raise CtrlabError(
            f"A server needs the extra `serve`; {missing.name} is not installed: pip install 'ctrlab[serve]'."
        ) from None
