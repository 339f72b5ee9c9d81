// SPDX-License-Identifier: BSD-3-Clause
#include "python_packages.h"

#include "output_of.h"

#include <cstdlib>
#include <sstream>
#include <string>

namespace gaudi::cli {

std::vector<std::filesystem::path> list_python_packages() {
    const char *active = std::getenv("VIRTUAL_ENV");
    std::error_code error;
    std::filesystem::path python = std::filesystem::path(active ? active : "") / "bin" / "python3";
    if (!active || !std::filesystem::exists(python, error))
        python = "python3";
    std::vector<std::filesystem::path> found;
    std::istringstream lines(output_of({python.string(), "-c", "import sys; print(*sys.path[1:], sep='\\n')"}));
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('/'))
            found.emplace_back(line);
    }
    return found;
}

} // namespace gaudi::cli
