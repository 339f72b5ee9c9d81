// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "engine.h"

#include <memory>
#include <span>

namespace gaudi {

struct BackEnd {
    /// Whether the back end can serve the card, as far as is known before it is started.
    bool (*may_serve)(Card &card);
    /// An error with ENOTSUP: the back end does not serve this session.
    Result<std::shared_ptr<Engine>> (*start)(Session &session);
    /// Whether start() calls the framework, which may wait for this process.
    bool calls_framework;
};

/// In the order in which they are tried.
std::span<const BackEnd> back_ends();

} // namespace gaudi
