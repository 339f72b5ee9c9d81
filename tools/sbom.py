# SPDX-License-Identifier: BSD-3-Clause
"""The bill of materials of the packages (SPDX 2.3, JSON), from the files that are really in them."""

import datetime
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile
import zipfile

DOCUMENT = "SPDXRef-DOCUMENT"


def members(package):
    """(name, content) of each file in a package."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as archive:
            yield from ((name, archive.read(name)) for name in archive.namelist() if not name.endswith("/"))
        return
    if package.suffix == ".deb":
        data = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, check=True).stdout
    elif package.suffix == ".rpm":
        with package.open("rb") as file:
            data = subprocess.run(["rpm2archive", "-"], stdin=file, stdout=subprocess.PIPE, check=True).stdout
    else:
        data = package.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        yield from ((member.name, archive.extractfile(member).read()) for member in archive if member.isfile())


def macro(header, name):
    """The value of a macro in a header."""
    return re.search(rf"#\s*define\s+{name}\s+\"?([\w.]+)", header.read_text())[1]


def joined(header, prefix):
    return ".".join(macro(header, f"{prefix}_{part}") for part in ("MAJOR", "MINOR", "PATCH"))


def packed(number):
    """13.2.1 of 130201."""
    return ".".join(str(int(number) // scale % 100) for scale in (10000, 100, 1))


def third_party(headers, zig):
    """(name, version, licence) of the code of others in the binaries, from the headers that were compiled."""
    include = headers / "usr" / "include"
    verbs = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", "libibverbs-dev"], stdout=subprocess.PIPE, text=True,
                           check=True).stdout
    return [("fmt", packed(macro(include / "fmt" / "core.h", "FMT_VERSION")), "MIT"),
            ("nlohmann-json", joined(include / "nlohmann" / "detail" / "abi_macros.hpp", "NLOHMANN_JSON_VERSION"), "MIT"),
            ("tl-expected", joined(include / "tl" / "expected.hpp", "TL_EXPECTED_VERSION"), "CC0-1.0"),
            ("CLI11", macro(include / "CLI" / "Version.hpp", "CLI11_VERSION"), "BSD-3-Clause"),
            ("rdma-core-headers", verbs, "MIT"),
            ("libcxx", packed(macro(zig.parent / "lib" / "libcxx" / "include" / "__config", "_LIBCPP_VERSION")),
             "Apache-2.0 WITH LLVM-exception")]


def identifier(*parts):
    """An identifier of letters, digits, '.' and '-' only. Where that loses something, a digest keeps it unique."""
    text = "-".join(parts)
    plain = re.sub(r"[^A-Za-z0-9.-]", "-", text)
    return f"SPDXRef-{plain}" + ("" if plain == text else f"-{hashlib.sha256(text.encode()).hexdigest()[:8]}")


def package_entry(name, version, licence, **more):
    return {"SPDXID": identifier("Package", name), "name": name, "versionInfo": version, "licenseConcluded": licence,
            "licenseDeclared": licence, "copyrightText": "NOASSERTION", "downloadLocation": "NOASSERTION",
            "filesAnalyzed": False, **more}


def verification_code(files):
    """The specification's digest of all files of a package: of their sorted SHA-1 digests."""
    digests = sorted(checksum["checksumValue"] for file in files for checksum in file["checksums"]
                     if checksum["algorithm"] == "SHA1")
    return {"packageVerificationCodeValue": hashlib.sha1("".join(digests).encode()).hexdigest()}


def checksums(content):
    return [{"algorithm": name, "checksumValue": hashlib.new(name.lower(), content).hexdigest()}
            for name in ("SHA1", "SHA256")]


def relation(source, kind, target):
    return {"spdxElementId": source, "relationshipType": kind, "relatedSpdxElement": target}


def document(version, packages, parts):
    """The document for package files and for the parts of others, which all binaries may have inside."""
    entries = [package_entry(*part) for part in parts]
    files, relations = [], []
    for package in packages:
        inside = [{"SPDXID": identifier("File", package.name, name), "fileName": f"./{name.removeprefix('./')}",
                   "checksums": checksums(content), "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"}
                  for name, content in members(package)]
        entry = package_entry(package.name, version, "BSD-3-Clause", checksums=checksums(package.read_bytes()),
                              filesAnalyzed=True, packageVerificationCode=verification_code(inside))
        entries.append(entry)
        files += inside
        relations.append(relation(DOCUMENT, "DESCRIBES", entry["SPDXID"]))
        relations += [relation(entry["SPDXID"], "CONTAINS", file["SPDXID"]) for file in inside]
        if package.suffix != ".gz":  # sources have none of it
            relations += [relation(entry["SPDXID"], "STATIC_LINK", identifier("Package", name)) for name, *_ in parts]
    created = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", 0)) or
                                              datetime.datetime.now().timestamp(), datetime.timezone.utc)
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": DOCUMENT, "name": f"ucx-gaudi-{version}",
            "documentNamespace": f"https://ucx-gaudi.invalid/spdx/{version}/{digest}",
            "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: ucx-gaudi-sbom"]},
            "packages": entries, "files": files, "relationships": relations}


def write(output, version, headers, zig):
    packages = sorted(path for path in output.iterdir() if path.suffix in (".whl", ".deb", ".rpm", ".gz"))
    text = json.dumps(document(version, packages, third_party(headers, zig)), indent=1)
    (output / f"ucx-gaudi-{version}.spdx.json").write_text(text + "\n")
