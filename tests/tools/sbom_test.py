#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""tools/sbom.py: the document has what SPDX 2.3 requires, of every package and file."""

import hashlib
import os
import re
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import sbom

PART = ("fmt", "9.1.0", "MIT")
CONTENTS = {"a_b.py": b"one", "a-b.py": b"two", "lib/a.so": b"three"}
LENGTHS = {"SHA1": 40, "SHA256": 64}


class Document(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as directory:
            wheel = Path(directory) / "ucx_gaudi-1.2.3-py3-none-any.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                for name, content in CONTENTS.items():
                    archive.writestr(name, content)
            os.environ["SOURCE_DATE_EPOCH"] = "1700000000"
            cls.document = sbom.document("1.2.3", [wheel], [PART])

    def test_document_has_the_required_fields(self):
        self.assertEqual(self.document["spdxVersion"], "SPDX-2.3")
        self.assertEqual(self.document["dataLicense"], "CC0-1.0")
        self.assertEqual(self.document["SPDXID"], "SPDXRef-DOCUMENT")
        self.assertTrue(self.document["name"])
        self.assertRegex(self.document["documentNamespace"], r"^https?://[^#]+$")
        self.assertEqual(self.document["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        for creator in self.document["creationInfo"]["creators"]:
            self.assertRegex(creator, r"^(Tool|Person|Organization): \S")

    def test_identifiers_are_valid_and_unique(self):
        identifiers = [element["SPDXID"] for element in self.document["packages"] + self.document["files"]]
        self.assertEqual(len(identifiers), len(set(identifiers)))
        for identifier in identifiers:
            self.assertRegex(identifier, r"^SPDXRef-[A-Za-z0-9.-]+$")

    def test_packages_have_the_required_fields(self):
        for package in self.document["packages"]:
            self.assertTrue(package["name"])
            self.assertTrue(package["versionInfo"])
            self.assertTrue(package["downloadLocation"])
            self.assertEqual(package["filesAnalyzed"], "packageVerificationCode" in package)

    def test_verification_code_covers_the_files(self):
        package, = (package for package in self.document["packages"] if package["filesAnalyzed"])
        digests = sorted(hashlib.sha1(content).hexdigest() for content in CONTENTS.values())
        self.assertEqual(package["packageVerificationCode"]["packageVerificationCodeValue"],
                         hashlib.sha1("".join(digests).encode()).hexdigest())

    def test_files_have_the_required_fields(self):
        self.assertEqual({file["fileName"] for file in self.document["files"]}, {f"./{name}" for name in CONTENTS})
        for file in self.document["files"]:
            found = {checksum["algorithm"]: checksum["checksumValue"] for checksum in file["checksums"]}
            self.assertEqual(set(found), set(LENGTHS))  # SHA1 is required
            for algorithm, value in found.items():
                self.assertTrue(re.fullmatch(rf"[0-9a-f]{{{LENGTHS[algorithm]}}}", value))

    def test_relationships_are_between_known_elements(self):
        known = {"SPDXRef-DOCUMENT", *(element["SPDXID"] for element in self.document["packages"] + self.document["files"])}
        kinds = set()
        for relation in self.document["relationships"]:
            self.assertLessEqual({relation["spdxElementId"], relation["relatedSpdxElement"]}, known)
            kinds.add(relation["relationshipType"])
        self.assertEqual(kinds, {"DESCRIBES", "CONTAINS", "STATIC_LINK"})


if __name__ == "__main__":
    unittest.main()
