// SPDX-License-Identifier: BSD-3-Clause
// UCX's log handlers are a stack of the whole process, last in, first out: a program that pushes one and pops it again
// must get back its own, whatever UCX loaded in between.
#include "conversation.h"

#include <ucs/debug/log_def.h>

using namespace e2e;

namespace {

unsigned g_lines = 0;

ucs_log_func_rc_t count(const char *, unsigned, const char *, ucs_log_level_t, const ucs_log_component_config_t *,
                        const char *, va_list) {
    ++g_lines;
    return UCS_LOG_FUNC_RC_STOP;
}

void log_a_line() {
    static ucs_log_component_config_t component{UCS_LOG_LEVEL_WARN, "TEST", "*"};
    ucs_log_dispatch(__FILE__, __LINE__, __func__, UCS_LOG_LEVEL_ERROR, &component, "line");
}

class LogHandler : public ::testing::Test {
protected:
    LogHandler() { ucs_log_push_handler(count); }

    /// Pops one handler and expects that it was the test's own.
    void expect_own_on_top() const {
        g_lines = 0;
        log_a_line();
        EXPECT_EQ(g_lines, 1u);
        ucs_log_pop_handler();
        log_a_line();
        EXPECT_EQ(g_lines, 1u) << "the handler popped was another one, and the program's own stays for good";
        EXPECT_EQ(ucs_log_num_handlers(), m_before);
    }

    const unsigned m_before = ucs_log_num_handlers();
};

TEST_F(LogHandler, stays_on_top_after_ucp_init) {
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_TAG;
    ucp_context_h context = nullptr;
    ASSERT_EQ(ucp_init(&params, nullptr, &context), UCS_OK);
    expect_own_on_top();
    ucp_cleanup(context);
    EXPECT_EQ(ucs_log_num_handlers(), m_before);
}

TEST_F(LogHandler, stays_on_top_after_mapping_gaudi_memory) {
    {
        Side side(UCP_FEATURE_RMA);
        const Memory memory(side, UCS_MEMORY_TYPE_GAUDI, 1 << 20);
        expect_own_on_top();
    }
    EXPECT_EQ(ucs_log_num_handlers(), m_before);
}

} // namespace
