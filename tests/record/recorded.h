// SPDX-License-Identifier: BSD-3-Clause
// Records the programs of program.cpp on softgaudi, and replays them.
#pragma once

#include "cli/command.h"
#include "cli/recording.h"
#include "soft/soft.h"

#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace recorded {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class Record : public ::testing::Test {
protected:
    Record() : m_file(fs::temp_directory_path() / ("recording-" + std::to_string(::getpid()))) {}
    ~Record() override { fs::remove(m_file); }

    std::string file() const { return m_file.string(); }
    /// Records a program of program.cpp; returns the exit code.
    int record(const std::string &name, cli::Words options = {}) {
        cli::Words words = {UCX_GAUDI_COMMAND, "record", "-o", file()};
        words.insert(words.end(), options.begin(), options.end());
        words.insert(words.end(), {"--", PROGRAM, name});
        const cli::Result got = cli::result(cli::run({"--cards", "1"}, words));
        m_printed = got.err;
        return got.code;
    }
    cli::Result replay() const {
        return cli::result(cli::run({"--cards", "1"}, {UCX_GAUDI_COMMAND, "replay", file()}));
    }
    gaudi::cli::Recording read() const {
        auto recording = gaudi::cli::Recording::read(m_file);
        if (!recording)
            throw std::runtime_error(recording.error());
        return std::move(*recording);
    }
    std::string contents() const {
        std::ifstream in(m_file, std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    void write(const std::string &bytes) const { std::ofstream(m_file, std::ios::binary) << bytes; }

    const fs::path m_file;
    std::string m_printed; // by the last record()
};

} // namespace recorded
