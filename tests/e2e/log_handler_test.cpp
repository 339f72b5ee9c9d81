// SPDX-License-Identifier: BSD-3-Clause
// UCX's log handlers are a stack of the whole process, so a module that pushes one would make a program pop the wrong
// handler: the handler of the program stays on top.
#include "conversation.h"

#include <ucs/debug/log_def.h>

using namespace e2e;

namespace {

unsigned s_lines = 0;

ucs_log_func_rc_t count_line(const char *, unsigned, const char *, ucs_log_level_t, const ucs_log_component_config_t *,
                             const char *, va_list) {
    ++s_lines;
    return UCS_LOG_FUNC_RC_STOP;
}

void log_a_line() {
    static ucs_log_component_config_t component{UCS_LOG_LEVEL_WARN, "TEST", "*"};
    ucs_log_dispatch(__FILE__, __LINE__, __func__, UCS_LOG_LEVEL_ERROR, &component, "line");
}

class LogHandler : public ::testing::Test {
protected:
    LogHandler() { ucs_log_push_handler(count_line); }

    /// Pops one handler and expects that it was the one of the test.
    void expect_own_handler_on_top() const {
        s_lines = 0;
        log_a_line();
        EXPECT_EQ(s_lines, 1u);
        ucs_log_pop_handler();
        log_a_line();
        EXPECT_EQ(s_lines, 1u) << "the popped handler was not the one of the program";
        EXPECT_EQ(ucs_log_num_handlers(), m_before);
    }

    const unsigned m_before = ucs_log_num_handlers();
};

TEST_F(LogHandler, stays_on_top_after_ucp_init) {
    ucp_context_h context = init_ucp();
    expect_own_handler_on_top();
    ucp_cleanup(context);
    EXPECT_EQ(ucs_log_num_handlers(), m_before);
}

TEST_F(LogHandler, stays_on_top_after_mapping_gaudi_memory) {
    {
        Side side(UCP_FEATURE_RMA);
        const Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 1 << 20);
        expect_own_handler_on_top();
    }
    EXPECT_EQ(ucs_log_num_handlers(), m_before);
}

} // namespace
