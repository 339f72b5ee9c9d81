# SPDX-License-Identifier: BSD-3-Clause
"""The tests on installed packages (packaging/test_*.py), and what they need beside the packages: roots of Debian, and
packages of another version."""

import contextlib
import re
import shutil
import subprocess
import sys

import package
from packages import need_packages
from roots import making, need_root
from steps import BUILD, LOGS, ROOT, Stop, shown, step

# Groups of tests on installed packages: the file in packaging/ that has them, and the releases of Debian that they run in.
TESTS = {"Wheel": ("test_installed", ()), "Sdist": ("test_installed", ()),
         "Install": ("test_installed", ()),
         "Deb": ("test_installed", ("trixie",)), "Rpm": ("test_installed", ("trixie",)),
         "Nixl": ("test_clients", ()), "OlderNixl": ("test_clients", ()), "NixlCuda13": ("test_clients", ()),
         "OlderNixlCuda13": ("test_clients", ()), "NixlTwice": ("test_clients", ()), "NixlNetworks": ("test_clients", ()),
         "NixlLines": ("test_clients", ()), "Readme": ("test_readme", ()),
         "Mpi": ("test_clients", ()), "MpiOverRdma": ("test_clients", ()),
         "MpiLines": ("test_lines", ()), "UcxxLines": ("test_lines", ()), "TorchLines": ("test_lines", ()),
         "VllmGaudiLines": ("test_lines", ()), "OneProcess": ("test_clients", ()),
         "DebMpi": ("test_roots", ("trixie",)),
         "Versions": ("test_versions", ()), "DebVersions": ("test_versions", ("trixie",))}
ROOT_PACKAGES = ["python3-venv"]

# Another version of the packages from the same sources: in a mount namespace this command runs once more, with another
# CMakeLists.txt in the place of ours and copies in the place of the directories that it writes. Little is compiled again.
OTHER_VERSION = "9.9.9"
AS_OTHER = """set -e
for path in "$1"/*; do
    target=build/${path##*/}
    [ "$path" = "$1/CMakeLists.txt" ] && target=CMakeLists.txt
    mkdir -p "$(dirname "$target")"
    mount --bind "$path" "$target"
done
exec "$2" -B ucx-gaudi package
"""


def make_other_version():
    """Makes the packages of OTHER_VERSION, in build/other/packages."""
    other = BUILD / "other"
    shutil.rmtree(other, ignore_errors=True)
    (other / "packages").mkdir(parents=True)
    for name in ("portable", "wheel", "logs"):
        subprocess.run(["cp", "-a", BUILD / name, other / name], check=True)  # with their times, which ninja compares
    text = (ROOT / "CMakeLists.txt").read_text()
    (other / "CMakeLists.txt").write_text(re.sub(package.VERSION, rf"\g<1>{OTHER_VERSION}", text))
    step(f"make the packages of {OTHER_VERSION}",
         ["unshare", "--mount", "sh", "-c", AS_OTHER, "sh", str(other), sys.executable], "package-other")


def test(groups):
    """Makes the packages and runs the tests on them as installed, or some groups of these tests. The roots of Debian are
    made meanwhile: that is mostly waiting for the network."""
    groups = groups or list(TESTS)
    for group, packages in {"NixlNetworks": ["iproute2"], "Install": ["pkg-config", "gcc", "cmake"]}.items():
        if group in groups:
            need_packages(packages)
    with_other = any("Versions" in group for group in groups)
    with contextlib.ExitStack() as stack:
        releases = sorted({release for group in groups for release in TESTS[group][1]})
        if releases or with_other:
            need_root()
        roots = [stack.enter_context(making(release, release, ROOT_PACKAGES)) for release in releases]
        package.make()
        if with_other:
            make_other_version()
        for finish in roots:
            finish()
    failed = [group for group in groups if not run_tests(TESTS[group][0], group)]
    if failed:
        raise Stop(f"tests of the packages failed: {' '.join(failed)}; their output is above, and in {shown(LOGS)}/.")
    print(f"all tests of the packages passed: {' '.join(groups)}")


def run_tests(file, group):
    """Runs a group of tests of a file in packaging/ and returns whether all of it passed."""
    code, log = step(f"test {group}",
                     [sys.executable, "-B", "-m", "unittest", "-v", f"{file}.{group}"],
                     f"package-test-{group}", env={"PYTHONPATH": str(ROOT / "packaging")}, may_fail=True)
    output = log.read_text(errors="replace")
    if code == 0:
        output = "".join(f"    {line}\n" for line in re.findall(r"^.* \.\.\. ok$", output, re.MULTILINE))
    print(output, end="", flush=True)
    return code == 0
