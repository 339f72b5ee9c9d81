// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "engine.h"

namespace gaudi {

/// The engine of a card without a copy path, such as a Gaudi3 without a framework: it fails every copy with the reason.
/// Allocation, detection and export work all the same.
class NoEngine final : public Engine {
public:
    NoEngine(Session &session, const Error &why) : Engine(session) { set_failed(why); }

    const char *name() const override { return "none"; }
    void post(Direction, Transfer &transfer) override {
        transfer.failure = copy_failure();
        transfer.channel->finish(transfer);
    }
    void progress() override {}
    void wait() override {}
    void settle() override {}
    void stop(const Error &) override {}
    void release() override {}
};

} // namespace gaudi
