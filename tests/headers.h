// SPDX-License-Identifier: BSD-3-Clause
/// Compiled once and put in front of every test (cmake/Testing.cmake). A test still includes what it uses: the preset
/// clang compiles without this file.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
