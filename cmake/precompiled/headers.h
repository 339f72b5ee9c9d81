// SPDX-License-Identifier: BSD-3-Clause
/// Compiled once and put in front of every source of the libraries in src/ and soft/ (cmake/Precompiled.cmake). A source
/// still includes what it uses: the preset clang compiles without this file.
#pragma once

#include "os/format.h"

#include <tl/expected.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
