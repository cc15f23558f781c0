"""Makes a page of the manual of what a program's --help says."""

import re
import subprocess


def help_of(program, commands=()):
    return subprocess.run([str(program), *commands, "--help"], check=True,
                          stdout=subprocess.PIPE, text=True).stdout


def escaped(text):
    """As roff prints it as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def entries(section):
    """The entries of "Options:" and the like: (what it is, what it means)."""
    found = []
    for line in section.splitlines():
        entry = re.fullmatch(r"  (\S.*?)(?:\s{2,}(\S.*))?", line)
        if entry:
            found.append([entry[1], entry[2] or ""])
        elif line.strip() and found:
            found[-1][1] = (found[-1][1] + " " + line.strip()).strip()
    return found


def sections(text):
    """The parts of a help: title -> what is below it; "" is the first."""
    parts = re.split(r"(?m)^(\w+):[ ]*(?:\n|$)", text)
    return dict(zip([""] + parts[1::2], parts[::2]))


def tagged(section):
    return "".join(".TP\n.B %s\n%s\n" % (escaped(what), escaped(means))
                   for what, means in entries(section))


def command_names(program, commands=()):
    """All commands that lead to no others, as lists of words."""
    below = entries(sections(help_of(program, commands)).get("Subcommands", ""))
    if not below and commands:
        return [commands]
    return [names for name, _ in below
            for names in command_names(program, [*commands, name])]


def command_part(program, names):
    text = help_of(program, names)
    parts = sections(text)
    about = parts[""].split("Usage:")[0].strip()
    usage = re.search(r"Usage: (.*)", text)[1]
    own = "\n".join(line for line in parts.get("Options", "").splitlines()
                    if not line.startswith("  -h,--help")
                    and line.startswith(" "))
    return ".SS %s\n%s.\n.PP\n.B %s\n%s%s" % (
        escaped(" ".join(names)), escaped(about), escaped(usage),
        tagged(parts.get("Positionals", "")), tagged(own))


def of(program, section, summary):
    """The page of `program`, with a part for each of its commands."""
    text = help_of(program)
    parts = sections(text)
    name = program.name
    page = '.TH %s %d "" "TensorKV" ""\n.SH NAME\n%s \\- %s\n' % (
        name.upper(), section, escaped(name), escaped(summary))
    page += ".SH SYNOPSIS\n.B %s\n" % escaped(re.search(r"Usage: (.*)", text)[1])
    page += ".SH DESCRIPTION\n%s.\n" % escaped(
        parts[""].split("Usage:")[0].strip())
    page += ".SH OPTIONS\n" + tagged(parts["Options"])
    status = re.search(r"Exit status: (.*)", text)
    if status:
        page += ".SH EXIT STATUS\n%s\n" % escaped(status[1])
    commands = command_names(program)
    if commands:
        page += ".SH COMMANDS\n"
        page += "".join(command_part(program, names) for names in commands)
    return page
