// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

/// What a command prints; it must succeed.
inline std::string output_of(const char *command) {
    std::FILE *pipe = popen(command, "re");
    if (!pipe)
        throw std::runtime_error(std::string("cannot start ") + command);
    std::string text;
    std::array<char, 4096> piece{};
    while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe))
        text.append(piece.data(), got);
    if (pclose(pipe) != 0)
        throw std::runtime_error(std::string(command) + " failed");
    return text;
}
