// SPDX-License-Identifier: BSD-3-Clause
#include "engine_factory.h"

#include "cs_engine.h"
#include "gaudi/card/card.h"
#include "synapse_engine.h"

namespace gaudi {

std::span<const BackEnd> back_ends() {
    static constexpr BackEnd kBackEnds[] = {
        {[](Card &card) { return card.takes_submissions(); }, CsEngine::start, false},
        {SynapseEngine::may_serve, SynapseEngine::start, true},
    };
    return kBackEnds;
}

} // namespace gaudi
