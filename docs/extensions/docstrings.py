"""Makes Sphinx understand our docstrings: plain text with `names` in backticks, sections as Google has them, indented figures.

What is indented below a paragraph becomes a literal block, and no sign but the backtick, the list's and the doctest's means
anything. A name in backticks is a link if it is documented, and may be any piece of code if not; but a name that begins with
"ctrlab." must exist, else the build fails.
"""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections.abc import Mapping

SECTION = re.compile(r"(Args|Attributes|Raises|Returns|Yields):$")
CODE_OR_SIGN = re.compile(r"(`[^`]*`|(?<!\S)\*\w[\w ]*\*)(?=(\w)?)|(?<!^)[*|]|\\|(?<=\w)_(?!\w)")
NEXT_ERROR = re.compile(r"(?<=[.;] )(?=(?:[A-Z]\w+, )*[A-Z]\w*(?:Error|Name|Data|Schema): )")
GOES_ON = re.compile(r"    (?![A-Z]\w+[,:])")
SHARED = re.compile(r"    (\w+(?:, \w+)+): ")
NAMED = re.compile(r"^(\w+(?:, \w+)*): ")
LETTER = re.compile(r"(?<=: )(?=\w\.( |$))")
OURS = re.compile(r"ctrlab(\.\w+)+")


def setup(app) -> dict:
    app.connect("autodoc-process-signature", _signature)
    app.connect("autodoc-process-docstring", _process, priority=100)  # before napoleon's
    app.connect("missing-reference", _missing)
    return {"parallel_read_safe": True}


def _signature(app, what, name, obj, options, signature, returns):
    """A Keras class has a `__new__` that takes anything; its `__init__` says what."""
    if what == "class" and signature == "(*args, **kwargs)":
        _, *parameters = inspect.signature(obj.__init__).parameters.values()
        return str(inspect.Signature([p.replace(annotation=p.empty) for p in parameters])), returns
    return None


def _process(app, what, name, obj, options, lines: list[str]) -> None:
    if what == "data" and inspect.getdoc(obj) == inspect.getdoc(type(obj)):  # it has none of its own
        lines[:] = [", ".join(f"`{key}`" for key in obj)] if isinstance(obj, Mapping) else []
        return
    lines[:] = one_name_each(restructured(lines))
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")  # napoleon takes what stands before a colon in the first line for a type


def restructured(lines: list[str]) -> list[str]:
    """A docstring's lines: figures are literal blocks, names with their meaning a list, errors one a line, signs escaped."""
    out: list[str] = []
    section, at = "", 0
    while at < len(lines):
        line, end = lines[at], at + 1
        if line and not line.startswith(" "):
            found = SECTION.match(line)
            section = found[1] if found else ""
        if line.startswith(" ") and not section and out and not out[-1] and not in_list(out):
            while end < len(lines) and (not lines[end] or lines[end].startswith(" ")):
                end += 1
            out += block([text[4:] for text in lines[at:end]])
        else:
            out += of_section(section, escaped(line), out)
        at = end
    return out


def in_list(lines: list[str]) -> bool:
    return next((line for line in reversed(lines) if line), "").startswith(("- ", "* ", "  "))


def block(lines: list[str]) -> list[str]:
    """What stands indented by itself: names with their meaning, or a figure."""
    if NAMED.match(lines[0]) and all(NAMED.match(line) or line[:1] in ("", " ") for line in lines):
        items = "\n".join(NAMED.sub(r"- **\1**: ", escaped(line)) for line in lines)
        return re.sub(r"\n +", "\n  ", items).split("\n")
    return [".. code-block:: text", "", *("    " + line if line else "" for line in lines)]


def of_section(section: str, line: str, above: list[str]) -> list[str]:
    """The line as napoleon understands it."""
    if section == "Raises":
        return NEXT_ERROR.sub("\n    ", GOES_ON.sub(" " * 8, line)).split("\n")
    if section == "Returns" and above[-1:] == ["Returns:"]:
        return [line.replace("    ", "    : ", 1)]  # it takes what stands before a colon for a type
    return [line]


def escaped(line: str) -> str:
    if line.lstrip().startswith((">>>", "...")):
        return line
    return LETTER.sub(r"\\", CODE_OR_SIGN.sub(_escaped, line))  # "D." would begin a list


def one_name_each(lines: list[str]) -> list[str]:
    """Attributes that share a description, each with its own; napoleon does this for arguments only."""
    out: list[str] = []
    section, at = "", 0
    while at < len(lines):
        line, end = lines[at], at + 1
        section = line if line and not line.startswith(" ") else section
        shared = SHARED.match(line) if section == "Attributes:" else None
        while shared and end < len(lines) and lines[end].startswith(" " * 8):
            end += 1
        names = shared[1].split(", ") if shared else []
        out += [text for name in names for text in (f"    {name}: {line[shared.end() :]}", *lines[at + 1 : end])] or [line]
        at = end
    return out


def _escaped(found: re.Match) -> str:
    code, letter_behind = found.groups()
    return code + ("\\ " if letter_behind else "") if code else "\\" + found[0]


def _missing(app, env, node, contnode):
    """A name that is not documented: a link where one documented name ends with it; otherwise the piece of code that it is."""
    target = node["reftarget"]
    if node.get("refdomain") != "py" or (OURS.fullmatch(target) and not _exists(target)):
        return None
    if target[:1].isupper():
        domain = env.get_domain("py")
        ends = [name for name in domain.objects if name.endswith(f".{target}")]
        places = {domain.objects[name].node_id for name in ends}
        if len(places) == 1:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", ends[0], node, contnode)
    return contnode


def _exists(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True
