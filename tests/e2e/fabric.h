// SPDX-License-Identifier: BSD-3-Clause
// A fixture with its own fabric of software HCAs.
#pragma once

#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace e2e {

class FabricTest : public ::testing::Test {
protected:
    FabricTest() {
        char name[] = "/dev/shm/softhca-test-XXXXXX";
        m_dir = mkdtemp(name);
        set("SOFTHCA_DIR", m_dir);
        set("UCX_TLS", "rc_v,gaudi_cpy");
    }
    ~FabricTest() override {
        std::error_code ignored;
        std::filesystem::remove_all(m_dir, ignored);
    }
    static void set(const char *variable, const std::string &value) { setenv(variable, value.c_str(), 1); }

private:
    std::string m_dir;
};

} // namespace e2e
