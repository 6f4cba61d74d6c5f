#!/usr/bin/env python3
"""Writes what a user of `millstream` can name, one sorted line per item, from rustdoc's JSON.

    api.py FOLDER        with millstream.json, millstream_core.json and millstream_nn.json

Hidden items are left out, as in the docs. An item that can be reached by several paths is described at the first and
shortest one. See scripts/api.sh.
"""

import json
import sys
from pathlib import Path

FORMAT = 57
CRATES = ("millstream", "millstream_core", "millstream_nn")


def last(path):
    """The name at the end of a path."""
    return path.rsplit("::", 1)[-1]


def arguments(args):
    """What stands in angle brackets or parentheses after a path."""
    if not args:
        return ""
    if "parenthesized" in args:
        inside = args["parenthesized"]
        output = inside["output"]
        result = f" -> {type_text(output)}" if output else ""
        return f"({', '.join(map(type_text, inside['inputs']))}){result}"
    if "angle_bracketed" not in args:
        return "(..)"
    inside = args["angle_bracketed"]
    parts = []
    for argument in inside["args"]:
        if argument == "infer":
            parts.append("_")
        elif "lifetime" in argument:
            parts.append(argument["lifetime"])
        elif "type" in argument:
            parts.append(type_text(argument["type"]))
        else:
            parts.append(argument["const"]["expr"])
    for constraint in inside["constraints"]:
        binding = constraint["binding"]
        if "equality" in binding:
            term = binding["equality"]
            value = type_text(term["type"]) if "type" in term else term["constant"]["expr"]
            parts.append(f"{constraint['name']} = {value}")
        else:
            parts.append(f"{constraint['name']}: {bounds_text(binding['constraint'])}")
    return f"<{', '.join(parts)}>" if parts else ""


def path_text(path):
    return last(path["path"]) + arguments(path["args"])


def for_text(parameters):
    names = [parameter["name"] for parameter in parameters]
    return f"for<{', '.join(names)}> " if names else ""


def bound_text(bound):
    if "outlives" in bound:
        return bound["outlives"]
    if "use" in bound:
        return "use<..>"
    inside = bound["trait_bound"]
    maybe = "?" if inside["modifier"] == "maybe" else ""
    return maybe + for_text(inside["generic_params"]) + path_text(inside["trait"])


def bounds_text(bounds):
    return " + ".join(map(bound_text, bounds))


def function_pointer(inside):
    signature = inside["sig"]
    inputs = ", ".join(type_text(kind) for _, kind in signature["inputs"])
    output = f" -> {type_text(signature['output'])}" if signature["output"] else ""
    return f"{for_text(inside['generic_params'])}fn({inputs}){output}"


def type_text(kind):
    """A type as it is written, each path by its last name."""
    if kind == "infer":
        return "_"
    (name, inside), = kind.items()
    match name:
        case "primitive":
            return "!" if inside == "never" else inside
        case "generic":
            return inside
        case "resolved_path":
            return path_text(inside)
        case "borrowed_ref":
            lifetime = f"{inside['lifetime']} " if inside["lifetime"] else ""
            return f"&{lifetime}{'mut ' if inside['is_mutable'] else ''}{type_text(inside['type'])}"
        case "raw_pointer":
            return f"*{'mut' if inside['is_mutable'] else 'const'} {type_text(inside['type'])}"
        case "slice":
            return f"[{type_text(inside)}]"
        case "array":
            return f"[{type_text(inside['type'])}; {inside['len']}]"
        case "tuple":
            parts = ", ".join(map(type_text, inside))
            return f"({parts},)" if len(inside) == 1 else f"({parts})"
        case "impl_trait":
            return f"impl {bounds_text(inside)}"
        case "dyn_trait":
            parts = [for_text(p["generic_params"]) + path_text(p["trait"]) for p in inside["traits"]]
            parts += [inside["lifetime"]] if inside["lifetime"] else []
            return f"dyn {' + '.join(parts)}"
        case "function_pointer":
            return function_pointer(inside)
        case "qualified_path":
            trait = inside["trait"]
            own = type_text(inside["self_type"])
            if not trait or not trait["path"]:
                return f"{own}::{inside['name']}"
            return f"<{own} as {path_text(trait)}>::{inside['name']}"
        case _:
            return f"<{name}>"


def parameter_text(parameter):
    (kind, inside), = parameter["kind"].items()
    name = parameter["name"]
    if kind == "const":
        return f"const {name}: {type_text(inside['type'])}"
    if kind == "lifetime":
        return name + (f": {' + '.join(inside['outlives'])}" if inside["outlives"] else "")
    return name + (f": {bounds_text(inside['bounds'])}" if inside["bounds"] else "")


def generics_text(generics):
    """The parameters, and the bounds that stand after `where`."""
    shown = [
        parameter_text(parameter)
        for parameter in generics["params"]
        if not parameter["kind"].get("type", {}).get("is_synthetic")
    ]
    where = []
    for predicate in generics["where_predicates"]:
        (kind, inside), = predicate.items()
        if kind == "bound_predicate":
            where.append(f"{type_text(inside['type'])}: {bounds_text(inside['bounds'])}")
        elif kind == "lifetime_predicate":
            where.append(f"{inside['lifetime']}: {' + '.join(inside['outlives'])}")
    parameters = f"<{', '.join(shown)}>" if shown else ""
    return parameters, f" where {', '.join(where)}" if where else ""


def function_text(path, inside):
    header, signature = inside["header"], inside["sig"]
    words = [word for word in ("const", "async", "unsafe") if header[f"is_{word}"]]
    parameters, where = generics_text(inside["generics"])
    inputs = []
    for name, kind in signature["inputs"]:
        text = type_text(kind)
        own = {"Self": "self", "&Self": "&self", "&mut Self": "&mut self"}.get(text)
        inputs.append(own if name == "self" and own else f"{name}: {text}")
    output = f" -> {type_text(signature['output'])}" if signature["output"] else ""
    return " ".join([*words, f"fn {path}{parameters}({', '.join(inputs)}){output}{where}"])


class Listing:
    def __init__(self, folder):
        self.crates = {name: json.loads((folder / f"{name}.json").read_text()) for name in CRATES}
        for name, crate in self.crates.items():
            if crate["format_version"] != FORMAT:
                sys.exit(f"{name}: rustdoc writes format {crate['format_version']}, this reads {FORMAT}")
        # Where each crate describes an item of a path.
        self.places = {
            name: {tuple(entry["path"]): number for number, entry in crate["paths"].items()}
            for name, crate in self.crates.items()
        }
        self.lines = set()
        self.seen = {}

    def resolve(self, crate, number):
        """The crate that describes an item, and its number there; None for items of other crates."""
        if str(number) in self.crates[crate]["index"]:
            return crate, str(number)
        entry = self.crates[crate]["paths"].get(str(number))
        home = entry and entry["path"][0]
        if home not in self.crates:
            return None
        place = self.places[home].get(tuple(entry["path"]))
        return (home, place) if place in self.crates[home]["index"] else None

    def run(self):
        waiting = [("millstream", str(self.crates["millstream"]["root"]), "millstream")]
        while waiting:
            # The shortest paths first, so that each item is described there.
            waiting.sort(key=lambda entry: (entry[2].count("::"), entry[2]))
            crate, number, path = waiting.pop(0)
            waiting += self.visit(crate, number, path)
        return sorted(self.lines)

    def visit(self, crate, number, path):
        """Adds the lines of an item. Gives what it holds."""
        item = self.crates[crate]["index"][number]
        first = self.seen.setdefault((crate, number), path)
        if first != path:
            self.lines.add(f"pub use {first} as {path}")
            return []
        (kind, inside), = item["inner"].items()
        if kind == "module":
            self.lines.add(f"pub mod {path}")
            return [entry for child in inside["items"] for entry in self.child(crate, child, path)]
        self.describe(crate, item, kind, inside, path)
        return []

    def child(self, crate, number, path):
        item = self.crates[crate]["index"].get(str(number))
        if item is None or item["visibility"] not in ("public", "default"):
            return []
        if "use" not in item["inner"]:
            return [(crate, str(number), f"{path}::{item['name']}")]
        use = item["inner"]["use"]
        target = use["id"] is not None and self.resolve(crate, use["id"])
        if not target:
            self.lines.add(f"pub use {use['source']} in {path}")
            return []
        if use["is_glob"]:
            home, place = target
            inside = self.crates[home]["index"][place]["inner"]
            children = inside["module"]["items"] if "module" in inside else inside["enum"]["variants"]
            return [entry for child in children for entry in self.child(home, child, path)]
        return [(*target, f"{path}::{use['name']}")]

    def describe(self, crate, item, kind, inside, path):
        index = self.crates[crate]["index"]
        open_ended = "#[non_exhaustive] " if "non_exhaustive" in item["attrs"] else ""
        parameters, where = generics_text(inside["generics"]) if "generics" in inside else ("", "")
        match kind:
            case "function":
                self.lines.add(f"pub {function_text(path, inside)}")
            case "constant":
                self.lines.add(f"pub const {path}: {type_text(inside['type'])}")
            case "static":
                self.lines.add(f"pub static {path}: {type_text(inside['type'])}")
            case "type_alias":
                self.lines.add(f"pub type {path}{parameters} = {type_text(inside['type'])}")
            case "macro":
                self.lines.add(f"pub macro {path}!")
            case "struct" | "union":
                self.lines.add(f"{open_ended}pub {kind} {path}{parameters}{where}")
                self.fields(index, inside["kind"], path) if kind == "struct" else None
            case "enum":
                self.lines.add(f"{open_ended}pub enum {path}{parameters}{where}")
                for number in inside["variants"]:
                    variant = index[str(number)]
                    self.lines.add(f"pub {path}::{variant['name']}")
                    self.fields(index, variant["inner"]["variant"]["kind"], f"{path}::{variant['name']}")
            case "trait":
                bounds = f": {bounds_text(inside['bounds'])}" if inside["bounds"] else ""
                self.lines.add(f"pub trait {path}{parameters}{bounds}{where}")
                self.members(index, inside["items"], path)
        for number in inside.get("impls", []) if isinstance(inside, dict) else []:
            self.implementation(index, index[str(number)]["inner"]["impl"], path)

    def fields(self, index, kind, path):
        if kind in ("plain", "unit"):
            return
        (shape, inside), = kind.items()
        fields = inside["fields"] if shape in ("plain", "struct") else inside
        for number in fields:
            if number is not None and str(number) in index:
                field = index[str(number)]
                self.lines.add(f"pub {path}::{field['name']}: {type_text(field['inner']['struct_field'])}")

    def members(self, index, numbers, path):
        for number in numbers:
            item = index.get(str(number))
            if item is None:
                continue
            (kind, inside), = item["inner"].items()
            name = f"{path}::{item['name']}"
            if kind == "function":
                self.lines.add(f"pub {function_text(name, inside)}")
            elif kind == "assoc_const":
                self.lines.add(f"pub const {name}: {type_text(inside['type'])}")
            elif kind == "assoc_type":
                value = f" = {type_text(inside['type'])}" if inside["type"] else ""
                bounds = f": {bounds_text(inside['bounds'])}" if inside["bounds"] else ""
                self.lines.add(f"pub type {name}{bounds}{value}")

    def implementation(self, index, inside, path):
        if inside["blanket_impl"]:
            return
        trait = inside["trait"]
        if trait is None:
            self.members(index, inside["items"], path)
        elif inside["is_synthetic"]:
            # Of the automatic traits, only what a type lacks of these two is worth a line.
            if inside["is_negative"] and last(trait["path"]) in ("Send", "Sync"):
                self.lines.add(f"impl !{last(trait['path'])} for {path}")
        else:
            parameters, where = generics_text(inside["generics"])
            own = type_text(inside["for"])
            refer = "&" if own.startswith("&") else ""
            own = own.removeprefix("&").split("<")[0].rsplit("::")[-1]
            rest = type_text(inside["for"]).removeprefix("&").removeprefix(own)
            name = path if own == last(path) else own
            self.lines.add(f"impl{parameters} {path_text(trait)} for {refer}{name}{rest}{where}")


def main():
    print("\n".join(Listing(Path(sys.argv[1])).run()))


if __name__ == "__main__":
    main()
