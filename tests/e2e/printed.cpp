// SPDX-License-Identifier: BSD-3-Clause
#include "printed.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <sstream>

namespace e2e {

Printed::Printed() : m_file(memfd_create("printed", MFD_CLOEXEC)), m_stdout(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)) {
    std::fflush(stdout);
    dup2(m_file, STDOUT_FILENO);
    fcntl(STDOUT_FILENO, F_SETFL, O_APPEND);
}

Printed::~Printed() {
    const std::string all = text();
    dup2(m_stdout, STDOUT_FILENO);
    close(m_stdout);
    close(m_file);
    std::cout << all << std::flush;
}

std::string Printed::text() const {
    std::fflush(stdout);
    std::string all(static_cast<std::size_t>(lseek(m_file, 0, SEEK_END)), '\0');
    const ssize_t got = pread(m_file, all.data(), all.size(), 0);
    all.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return all;
}

std::vector<std::string> Printed::complaints() const {
    std::vector<std::string> found;
    std::istringstream lines(text());
    for (std::string line; std::getline(lines, line);)
        for (const char *level : {" WARN ", " ERROR ", " FATAL "})
            if (line.find(level) != std::string::npos)
                found.push_back(line);
    return found;
}

} // namespace e2e
