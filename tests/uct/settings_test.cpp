// SPDX-License-Identifier: BSD-3-Clause
// Settings that are out of range are refused by name, and where a variable hides all cards, the log names that variable.
#include "uct_side.h"

#include <stdlib.h>

using namespace uct_side;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

namespace {

class Setting : public ::testing::Test {
protected:
    /// `row` as in "MAX_MEMORY".
    static ucs_status_t read_domain(const Domain &domain, const std::string &row, const char *value) {
        const std::string name = "UCX_GAUDI_COPY_" + row;
        setenv(name.c_str(), value, 1);
        uct_md_config_t *config = nullptr;
        const ucs_status_t status = uct_md_config_read(domain.component(), nullptr, nullptr, &config);
        if (status == UCS_OK)
            uct_config_release(config);
        unsetenv(name.c_str());
        return status;
    }
    /// `row` as in "LATENCY".
    static ucs_status_t read_transport(const Domain &domain, const std::string &transport, const std::string &row,
                                       const char *value) {
        const std::string name = (transport == "gaudi_cpy" ? "UCX_GAUDI_CPY_" : "UCX_GAUDI_GDR_") + row;
        setenv(name.c_str(), value, 1);
        uct_iface_config_t *config = nullptr;
        const ucs_status_t status = uct_md_iface_config_read(domain.md(), transport.c_str(), nullptr, nullptr, &config);
        if (status == UCS_OK)
            uct_config_release(config);
        unsetenv(name.c_str());
        return status;
    }
    void expect_refused(const Domain &domain, const std::string &row, const char *value) {
        for (const char *transport : {"gaudi_cpy", "gaudi_gdr"}) {
            EXPECT_EQ(read_transport(domain, transport, row, value), UCS_ERR_INVALID_PARAM) << row << '=' << value;
            EXPECT_THAT(m_printed.complaints(), Contains(HasSubstr("Invalid value for " + row + ": '" + value + "'")));
        }
    }
    void expect_accepted(const Domain &domain, const std::string &row, const char *value) {
        for (const char *transport : {"gaudi_cpy", "gaudi_gdr"})
            EXPECT_EQ(read_transport(domain, transport, row, value), UCS_OK) << row << '=' << value;
        EXPECT_THAT(m_printed.complaints(), IsEmpty());
    }

    e2e::Printed m_printed;
};

TEST_F(Setting, negative_or_infinite_time_is_refused) {
    const Domain domain;
    for (const char *row : {"LATENCY", "OVERHEAD"})
        for (const char *value : {"-1", "-1us", "-0.5ns", "inf", "nan"})
            expect_refused(domain, row, value);
    EXPECT_THAT(m_printed.complaints(), Contains(HasSubstr("Expected: time, not negative: <number>[m|s|ms|us|ns]")));
}

TEST_F(Setting, time_from_zero_up_is_accepted) {
    const Domain domain;
    for (const char *row : {"LATENCY", "OVERHEAD"})
        for (const char *value : {"0", "1us", "1e-6s", "2.5ms"})
            expect_accepted(domain, row, value);
}

TEST_F(Setting, bandwidth_that_is_not_above_zero_is_refused) {
    const Domain domain;
    for (const char *value : {"-1GBs", "0MBs", "infMBs", "nanMBs", "auto", "down:0MBs,1GBs", "1GBs,card:-2MBs"})
        expect_refused(domain, "BW", value);
}

TEST_F(Setting, bandwidth_above_zero_is_accepted) {
    const Domain domain;
    for (const char *value : {"10GBs", "down:10GBs,up:20Gb/s,card:1TBps", "1GBs,card:2GBs"})
        expect_accepted(domain, "BW", value);
}

TEST_F(Setting, framework_takes_yes_and_no) {
    const Domain domain;
    for (const char *value : {"y", "n", "yes", "no", "1", "0"})
        EXPECT_EQ(read_transport(domain, "gaudi_cpy", "FRAMEWORK", value), UCS_OK) << value;
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
    for (const char *value : {"try", "auto", "later", ""})
        EXPECT_EQ(read_transport(domain, "gaudi_cpy", "FRAMEWORK", value), UCS_ERR_INVALID_PARAM) << value;
    EXPECT_THAT(m_printed.complaints(),
                Contains(AllOf(HasSubstr("Invalid value for FRAMEWORK: 'try'"), HasSubstr("Expected: y or n"))));
}

TEST_F(Setting, negative_size_is_refused) {
    const Domain domain;
    for (const char *row : {"MAX_MEMORY", "MAX_MAPPED_HOST"})
        for (const char *value : {"-1", "-5gb", "-0"}) {
            EXPECT_EQ(read_domain(domain, row, value), UCS_ERR_INVALID_PARAM) << row << '=' << value;
            EXPECT_THAT(m_printed.complaints(),
                        Contains(AllOf(HasSubstr(std::string("Invalid value for ") + row + ": "), HasSubstr(value),
                                       HasSubstr("Expected: size, not negative"))));
        }
}

TEST_F(Setting, negative_or_infinite_open_timeout_is_refused) {
    const Domain domain;
    for (const char *value : {"-1", "-1s", "inf", "nan"})
        EXPECT_EQ(read_domain(domain, "OPEN_TIMEOUT", value), UCS_ERR_INVALID_PARAM) << value;
    for (const char *value : {"0", "2s", "100ms"})
        EXPECT_EQ(read_domain(domain, "OPEN_TIMEOUT", value), UCS_OK) << value;
}

TEST_F(Setting, size_from_zero_up_is_accepted) {
    const Domain domain;
    for (const char *row : {"MAX_MEMORY", "MAX_MAPPED_HOST"})
        for (const char *value : {"0", "5gb", "inf", "auto"})
            EXPECT_EQ(read_domain(domain, row, value), UCS_OK) << row << '=' << value;
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
}

/// The domain is offered all the same: peers may have cards.
TEST_F(Setting, variable_that_hides_all_cards_is_named) {
    setenv("HABANA_VISIBLE_MODULES", "99", 1);
    const std::string message =
        "there is no Gaudi card: HABANA_VISIBLE_MODULES=99 selects none of the modules 0, 1, 2, ";
    const Domain domain;
    EXPECT_THAT(m_printed.text(), AllOf(HasSubstr(" DIAG "), HasSubstr(message)));
    EXPECT_THAT(m_printed.complaints(), IsEmpty());
    uct_allocated_memory_t memory{};
    EXPECT_NE(Buffer::allocate(domain, kMiB, {}, memory), UCS_OK);
    EXPECT_THAT(m_printed.complaints(), AllOf(Contains(HasSubstr(message)), Each(HasSubstr(" ERROR "))));
}

} // namespace
