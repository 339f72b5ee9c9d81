// SPDX-License-Identifier: BSD-3-Clause
// Opening, closing and identity: which card a name selects, and who can open it.
#include "soft.h"

#include <set>

using namespace soft;

namespace {

class Open : public SoftTest {};

int open_card(const std::string &bus_id) { return hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, bus_id.c_str()); }

/// A control node that is closed at the end of the test.
class Control {
public:
    explicit Control(int index = 0) : fd(hlthunk_open_control(index, nullptr)) { EXPECT_GE(fd, 0) << strerror(errno); }
    ~Control() { EXPECT_EQ(hlthunk_close(fd), 0); }
    Control(const Control &) = delete;
    Control &operator=(const Control &) = delete;

    std::string bus_id() const {
        std::array<char, 13> name{};
        EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(fd, name.data(), static_cast<int>(name.size())), 0);
        return name.data();
    }
    hlthunk_hw_ip_info info() const {
        hlthunk_hw_ip_info info{};
        EXPECT_EQ(hlthunk_get_hw_ip_info(fd, &info), 0);
        return info;
    }
    hlthunk_open_stats_info stats() const {
        hlthunk_open_stats_info stats{};
        EXPECT_EQ(hlthunk_get_open_stats(fd, &stats), 0);
        return stats;
    }

    const int fd;
};

std::string bus_id(int index) { return Control(index).bus_id(); }

/// The errno of a function that returns 0 on every failure.
template <class Call>
int error_of(Call call) {
    errno = 0;
    return call() == 0 ? errno : 0;
}

// ---- the server -------------------------------------------------------------------------------------------------

TEST_F(Open, default_server_has_eight_gaudi2_cards) {
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 8);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI2), 8);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI), 0);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI3), 0);
}

TEST_F(Open, device_count_of_unknown_type_is_refused) {
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_INVALID), -EINVAL);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_MAX), -EINVAL);
}

TEST_F(Open, card_count_follows_the_setting) {
    set("SOFTGAUDI_CARDS", "3");
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 3);
    EXPECT_EQ(hlthunk_open_control(3, nullptr), -ENOENT);
    const Card first, second, third;
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
    EXPECT_EQ(errno, EBUSY);
}

TEST_F(Open, server_without_cards_refuses_every_open) {
    set("SOFTGAUDI_CARDS", "0");
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 0);
    errno = 0;
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
    EXPECT_EQ(errno, ENOENT);
    EXPECT_EQ(open_card("0000:19:00.0"), -EINVAL);
    EXPECT_EQ(hlthunk_open_control(0, nullptr), -ENOENT);
}

TEST_F(Open, wrong_setting_refuses_every_open) {
    set("SOFTGAUDI_CARDS", "9");
    EXPECT_LT(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr), 0);
    EXPECT_LT(hlthunk_open_control(0, nullptr), 0);
    EXPECT_LE(hlthunk_get_device_count(HLTHUNK_DEVICE_DONT_CARE), 0);
}

TEST_F(Open, version_has_three_numbers_and_a_name) {
    char *version = hlthunk_get_version();
    ASSERT_NE(version, nullptr);
    int major = 0, minor = 0, patch = 0;
    char name = 0;
    EXPECT_EQ(std::sscanf(version, "%d.%d.%d-%c", &major, &minor, &patch, &name), 4) << version;
    hlthunk_free(version);
}

TEST_F(Open, library_memory_reads_zero) {
    auto *bytes = static_cast<unsigned char *>(hlthunk_malloc(1000));
    ASSERT_NE(bytes, nullptr);
    EXPECT_EQ(std::vector<unsigned char>(bytes, bytes + 1000), std::vector<unsigned char>(1000, 0));
    hlthunk_free(bytes);
}

// ---- names ------------------------------------------------------------------------------------------------------

TEST_F(Open, bus_ids_are_unique_and_reversible) {
    std::set<std::string> known;
    for (int i = 0; i < 8; ++i) {
        const std::string name = bus_id(i);
        EXPECT_EQ(name.size(), 12u) << name;
        EXPECT_TRUE(known.insert(name).second) << name;
        EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id(name.c_str()), i);
    }
    EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id("0000:ff:00.0"), -1);
    EXPECT_EQ(hlthunk_get_device_index_from_pci_bus_id(nullptr), -EINVAL);
}

TEST_F(Open, every_form_of_bus_id_opens_the_same_card) {
    const std::string name = bus_id(5);
    for (const std::string &form : {name, name.substr(5), name + " and more"}) {
        const Card card(form.c_str());
        std::array<char, 16> found{};
        EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(card.fd, found.data(), static_cast<int>(found.size())), 0);
        EXPECT_EQ(std::string(found.data()), name) << form;
    }
}

TEST_F(Open, unknown_bus_id_is_refused) {
    for (const char *name : {"0000:ff:00.0", "ff:00.0", "0000:19:00", "0001:19:00.0", "0000:9A:00.0", "", "19"}) {
        EXPECT_EQ(open_card(name), -EINVAL) << name;
        EXPECT_EQ(hlthunk_open_control(0, name), -EINVAL) << name;
        EXPECT_EQ(hlthunk_open_control_by_name(HLTHUNK_DEVICE_DONT_CARE, name), -EINVAL) << name;
        EXPECT_EQ(hlthunk_open_control_by_bus_id(name), -EBADF) << name;
    }
}

TEST_F(Open, bus_id_overrides_device_type) {
    const int fd = hlthunk_open(HLTHUNK_DEVICE_GAUDI3, bus_id(2).c_str());
    ASSERT_GE(fd, 0);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(fd), HLTHUNK_DEVICE_GAUDI2);
    EXPECT_EQ(hlthunk_close(fd), 0);
}

TEST_F(Open, absent_device_type_is_not_found) {
    errno = 0;
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_GAUDI3, nullptr), -1);
    EXPECT_EQ(errno, ENOENT);
    errno = 0;
    EXPECT_EQ(hlthunk_open_control_by_name(HLTHUNK_DEVICE_GAUDI, nullptr), -1);
    EXPECT_EQ(errno, ENOENT);
}

TEST_F(Open, open_without_bus_id_takes_the_next_free_card) {
    std::set<std::string> taken;
    std::vector<int> cards;
    for (int i = 0; i < 8; ++i) {
        cards.push_back(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr));
        ASSERT_GE(cards.back(), 0);
        std::array<char, 13> name{};
        EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(cards.back(), name.data(), static_cast<int>(name.size())), 0);
        EXPECT_TRUE(taken.insert(name.data()).second) << name.data();
    }
    EXPECT_EQ(hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr), -1);
    EXPECT_EQ(errno, EBUSY);
    for (const int card : cards)
        EXPECT_EQ(hlthunk_close(card), 0);
}

TEST_F(Open, module_ids_differ_from_indexes) {
    std::set<uint32_t> slots;
    bool all_equal = true;
    for (int i = 0; i < 8; ++i) {
        const uint32_t slot = Control(i).info().module_id;
        EXPECT_LT(slot, 8u);
        EXPECT_TRUE(slots.insert(slot).second) << slot;
        all_equal &= slot == static_cast<uint32_t>(i);
    }
    EXPECT_FALSE(all_equal);
}

TEST_F(Open, module_ids_of_fewer_cards_begin_at_0) {
    set("SOFTGAUDI_CARDS", "6");
    for (const auto &[index, module] : {std::pair{0, 3u}, {3, 0u}, {4, 5u}, {5, 4u}})
        EXPECT_EQ(Control(index).info().module_id, module) << index;
}

TEST_F(Open, module_id_opens_the_card_in_that_slot) {
    for (uint32_t slot = 0; slot < 8; ++slot) {
        for (const int fd : {hlthunk_open_by_module_id(slot), hlthunk_open_control_by_module_id(slot)}) {
            ASSERT_GE(fd, 0);
            hlthunk_hw_ip_info info{};
            EXPECT_EQ(hlthunk_get_hw_ip_info(fd, &info), 0);
            EXPECT_EQ(info.module_id, slot);
            EXPECT_EQ(hlthunk_close(fd), 0);
        }
    }
    EXPECT_EQ(hlthunk_open_by_module_id(8), -1);
    EXPECT_EQ(hlthunk_open_control_by_module_id(8), -EBADF);
}

TEST_F(Open, bus_id_is_cut_to_a_short_buffer) {
    const Control control(0);
    std::array<char, 8> name{'x', 'x', 'x', 'x', 'x', 'x', 'x', 'x'};
    EXPECT_EQ(hlthunk_get_pci_bus_id_from_fd(control.fd, name.data(), 4), 0);
    EXPECT_EQ(std::string(name.data(), 8), "0000xxxx");
    EXPECT_LT(hlthunk_get_pci_bus_id_from_fd(control.fd, nullptr, 13), 0);
}

// ---- identity ---------------------------------------------------------------------------------------------------

TEST_F(Open, both_nodes_report_gaudi2) {
    const Card card;
    const Control control(0);
    for (const int fd : {card.fd, control.fd}) {
        EXPECT_EQ(hlthunk_get_device_id_from_fd(fd), 0x1020u);
        EXPECT_EQ(hlthunk_get_device_name_from_fd(fd), HLTHUNK_DEVICE_GAUDI2);
        EXPECT_EQ(hlthunk_get_device_status_info(fd), HL_DEVICE_STATUS_OPERATIONAL);
        hlthunk_hw_ip_info info{};
        ASSERT_EQ(hlthunk_get_hw_ip_info(fd, &info), 0);
        EXPECT_EQ(info.device_id, 0x1020u);
        EXPECT_EQ(info.sram_base_address, 0x1000FFFFFD000000u);
        EXPECT_EQ(info.sram_size, 48 * kMiB);
        EXPECT_EQ(info.dram_base_address, 0x1001001800000000u);
        EXPECT_EQ(info.dram_size, 127 * kPage);
        EXPECT_EQ(info.reserved_dram_size, kPage);
        EXPECT_EQ(info.dram_page_size, kPage);
        EXPECT_EQ(info.device_mem_alloc_default_page_size, kPage);
        EXPECT_EQ(info.dram_enabled, 1);
        EXPECT_EQ(info.edma_enabled_mask, 0xFFu);
        EXPECT_EQ(info.first_available_interrupt_id, 257);
        EXPECT_EQ(info.number_of_user_interrupts, 255);
        EXPECT_EQ(info.server_type, HL_SERVER_GAUDI2_HLS2);
        EXPECT_STREQ(reinterpret_cast<const char *>(info.card_name), "HL225");
        uint64_t orders = 1;
        EXPECT_EQ(hlthunk_get_dev_memalloc_page_orders(fd, &orders), 0);
        EXPECT_EQ(orders, 0u);
    }
}

TEST_F(Open, descriptor_of_no_card_has_no_identity) {
    const int other = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {other, -1, 4000}) {
        const int error = fd == other ? ENOTTY : EBADF;
        EXPECT_EQ(hlthunk_get_device_id_from_fd(fd), 0u);
        EXPECT_EQ(hlthunk_get_device_name_from_fd(fd), HLTHUNK_DEVICE_INVALID);
        std::array<char, 13> name{};
        EXPECT_LT(hlthunk_get_pci_bus_id_from_fd(fd, name.data(), 13), 0);
        hlthunk_hw_ip_info info{};
        EXPECT_EQ(hlthunk_get_hw_ip_info(fd, &info), -error);
        EXPECT_EQ(hlthunk_get_device_status_info(fd), -error);
        EXPECT_EQ(error_of([&] { return hlthunk_device_memory_alloc(fd, kPage, 0, false, false); }), error);
        EXPECT_EQ(hlthunk_memory_unmap(fd, 0x1001001800000000), -error);
    }
    EXPECT_EQ(close(other), 0);
    EXPECT_EQ(hlthunk_close(-1), -EBADF);
}

// ---- control nodes ----------------------------------------------------------------------------------------------

TEST_F(Open, control_nodes_open_beside_an_open_card) {
    const Card card;
    std::vector<std::unique_ptr<Control>> controls;
    for (int i = 0; i < 100; ++i)
        controls.push_back(std::make_unique<Control>(0));
    EXPECT_EQ(controls.back()->info().device_id, 0x1020u);
    EXPECT_EQ(controls.back()->stats().is_compute_ctx_active, 1);
}

TEST_F(Open, open_control_node_leaves_card_free) {
    const Control control(0);
    EXPECT_EQ(control.stats().is_compute_ctx_active, 0);
    const Card card(bus_id(0).c_str());
    EXPECT_EQ(control.stats().is_compute_ctx_active, 1);
}

TEST_F(Open, control_node_refuses_memory_calls) {
    const Control control(0);
    const int fd = control.fd;
    std::vector<char> host(4096);
    uint64_t handle = 0;
    EXPECT_EQ(error_of([&] { return hlthunk_device_memory_alloc(fd, kPage, 0, false, false); }), ENOTTY);
    EXPECT_EQ(hlthunk_device_memory_free(fd, 1), -ENOTTY);
    EXPECT_EQ(error_of([&] { return hlthunk_device_memory_map(fd, 1, 0); }), ENOTTY);
    EXPECT_EQ(error_of([&] { return hlthunk_host_memory_map(fd, host.data(), 0, host.size()); }), ENOTTY);
    EXPECT_EQ(error_of([&] { return hlthunk_host_memory_map_flags(fd, host.data(), 0, host.size(), 0); }), ENOTTY);
    EXPECT_EQ(hlthunk_memory_unmap(fd, 0x1001001800000000), -ENOTTY);
    EXPECT_EQ(hlthunk_request_command_buffer(fd, 4096, &handle), -ENOTTY);
    EXPECT_EQ(hlthunk_request_mapped_command_buffer(fd, 4096, &handle), -ENOTTY);
    EXPECT_EQ(hlthunk_destroy_command_buffer(fd, handle), -ENOTTY);
    EXPECT_EQ(hlthunk_allocate_timestamp_elements(fd, 8, &handle), -ENOTTY);
    uint32_t size = 0;
    EXPECT_EQ(hlthunk_get_hw_block(fd, kCfg, &size, &handle), -ENOTTY);
}

TEST_F(Open, control_node_refuses_submissions) {
    const Control control(0);
    const int fd = control.fd;
    auto chunk = Card::chunk(kDown, 0, 8);
    hlthunk_cs_in in{};
    in.chunks_execute = &chunk;
    in.num_chunks_execute = 1;
    hlthunk_cs_out out{};
    EXPECT_EQ(hlthunk_command_submission(fd, &in, &out), -ENOTTY);
    EXPECT_EQ(hlthunk_command_submission_timeout(fd, &in, &out, 1), -ENOTTY);
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(fd, 1, 0, &status), -ENOTTY);
    EXPECT_EQ(hlthunk_cs_flush_pci_hbw_writes(fd), -ENOTTY);
    hl_debug_args debug{};
    EXPECT_EQ(hlthunk_debug(fd, &debug), -ENOTTY);
}

TEST_F(Open, control_node_refuses_notifiers) {
    const Control control(0);
    EXPECT_EQ(hlthunk_notifier_create(control.fd), -EOPNOTSUPP);
    EXPECT_EQ(hlthunk_notifier_release(control.fd, 0), -EOPNOTSUPP);
    uint64_t events = 0, count = 0;
    EXPECT_EQ(hlthunk_notifier_recv(control.fd, 0, &events, &count, 0, 0), -EOPNOTSUPP);
}

// ---- exclusive use ----------------------------------------------------------------------------------------------

TEST_F(Open, second_open_in_one_process_is_busy) {
    const std::string name = bus_id(3);
    const uint32_t slot = Control(3).info().module_id;
    const Card card(name.c_str());
    errno = 0;
    EXPECT_EQ(open_card(name), -EBUSY);
    EXPECT_EQ(errno, EBUSY);
    EXPECT_EQ(hlthunk_open_by_module_id(slot), -EBUSY);
}

TEST_F(Open, refused_open_leaves_the_holder_working) {
    Card card(bus_id(0).c_str());
    const uint64_t address = card.memory();
    EXPECT_EQ(open_card(bus_id(0)), -EBUSY);
    EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_OPERATIONAL);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
}

TEST_F(Open, card_is_busy_until_the_last_duplicate_closes) {
    const std::string name = bus_id(0);
    const int fd = open_card(name);
    ASSERT_GE(fd, 0);
    const int copy = dup(fd), last = fcntl(fd, F_DUPFD_CLOEXEC, 100);
    EXPECT_EQ(hlthunk_close(fd), 0);
    EXPECT_EQ(open_card(name), -EBUSY);
    EXPECT_EQ(close(copy), 0);
    EXPECT_EQ(open_card(name), -EBUSY);
    const uint64_t handle = hlthunk_device_memory_alloc(last, kPage, 0, false, false);
    EXPECT_NE(handle, 0u);
    EXPECT_EQ(close(last), 0);
    const Card again(name.c_str());
}

TEST_F(Open, duplicate_shares_the_context) {
    Card card;
    const int copy = dup(card.fd);
    const uint64_t handle = hlthunk_device_memory_alloc(copy, kPage, 0, false, false);
    const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
    ASSERT_NE(address, 0u);
    EXPECT_EQ(hlthunk_memory_unmap(copy, address), 0);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
    EXPECT_EQ(close(copy), 0);
}

TEST_F(Open, reopened_card_has_a_new_context) {
    const std::string name = bus_id(0);
    std::vector<uint64_t> seen;
    for (int i = 0; i < 20; ++i) {
        Card card(name.c_str());
        hlthunk_dram_usage_info usage{};
        EXPECT_EQ(hlthunk_get_dram_usage(card.fd, &usage), 0);
        EXPECT_EQ(usage.ctx_dram_mem, 0u);
        EXPECT_EQ(usage.dram_free_mem, 127 * kPage);
        EXPECT_EQ(card.memory(), 0x1001001800000000u);
        const uint64_t seq = card.submit(kDown, Packets().nop());
        EXPECT_EQ(seq, 1u);
        EXPECT_EQ(card.wait(seq), 0);
    }
    EXPECT_EQ(Control(0).stats().open_counter, 20u);
}

TEST_F(Open, memory_of_the_old_context_is_unknown) {
    uint64_t handle = 0, address = 0;
    {
        const Card card;
        handle = hlthunk_device_memory_alloc(card.fd, kPage, 0, false, false);
        address = hlthunk_device_memory_map(card.fd, handle, 0);
        ASSERT_NE(address, 0u);
    }
    const Card card;
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL);
    EXPECT_EQ(error_of([&] { return hlthunk_device_memory_map(card.fd, handle, 0); }), EINVAL);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), -EINVAL);
}

TEST_F(Open, debug_mode_ends_with_the_context) {
    const std::string name = bus_id(0);
    for (int i = 0; i < 2; ++i) {
        const Card card(name.c_str());
        hl_debug_args debug{};
        debug.op = HL_DEBUG_OP_SET_MODE;
        debug.enable = 1;
        EXPECT_EQ(hlthunk_debug(card.fd, &debug), 0);
        EXPECT_EQ(hlthunk_debug(card.fd, &debug), -EFAULT); // it is on already
    }
}

TEST_F(Open, descriptors_have_close_on_exec) {
    const Card card;
    const Control control(0);
    for (const int fd : {card.fd, control.fd})
        EXPECT_EQ(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

TEST_F(Open, open_statistics_follow_opens_and_closes) {
    const Control control(0);
    EXPECT_EQ(control.stats().open_counter, 0u);
    const std::string name = control.bus_id();
    for (uint64_t i = 1; i <= 3; ++i) {
        const int fd = open_card(name);
        EXPECT_EQ(control.stats().open_counter, i);
        EXPECT_EQ(control.stats().is_compute_ctx_active, 1);
        EXPECT_EQ(open_card(name), -EBUSY);
        EXPECT_EQ(control.stats().open_counter, i);
        EXPECT_EQ(close(fd), 0); // as in a program that does not know hlthunk_close
        EXPECT_EQ(control.stats().is_compute_ctx_active, 0);
    }
}

// ---- Gaudi3 -----------------------------------------------------------------------------------------------------

class OpenGaudi3 : public SoftTest {
protected:
    OpenGaudi3() { set("SOFTGAUDI_MODEL", "gaudi3"); }
};

TEST_F(OpenGaudi3, identity_is_that_of_gaudi3) {
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI3), 8);
    EXPECT_EQ(hlthunk_get_device_count(HLTHUNK_DEVICE_GAUDI2), 0);
    const Card card;
    EXPECT_EQ(hlthunk_get_device_id_from_fd(card.fd), 0x1060u);
    EXPECT_EQ(hlthunk_get_device_name_from_fd(card.fd), HLTHUNK_DEVICE_GAUDI3);
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(card.fd, &info), 0);
    EXPECT_EQ(info.dram_page_size, 32 * kMiB);
    EXPECT_EQ(info.sram_size, 0u);
    EXPECT_EQ(info.first_available_interrupt_id, 256);
    EXPECT_EQ(info.edma_enabled_mask, 0u);
}

TEST_F(OpenGaudi3, submissions_on_every_queue_are_refused) {
    Card card;
    const uint64_t buffer = card.place(Packets().nop());
    for (uint32_t queue = 0; queue < 262; ++queue) {
        std::array chunks = {Card::chunk(queue, buffer, 8)};
        uint64_t seq = 0;
        EXPECT_EQ(card.try_submit(chunks, seq), -EINVAL) << queue;
    }
    uint32_t status = 0;
    EXPECT_EQ(hlthunk_wait_for_cs(card.fd, 1, 0, &status), -EINVAL);
    EXPECT_EQ(hlthunk_get_device_status_info(card.fd), HL_DEVICE_STATUS_OPERATIONAL);
}

TEST_F(OpenGaudi3, allocation_in_each_offered_page_size_succeeds) {
    const Card card;
    uint64_t sizes = 0;
    ASSERT_EQ(hlthunk_get_dev_memalloc_page_orders(card.fd, &sizes), 0);
    for (unsigned bit = 12; bit < 40; ++bit) {
        const uint64_t page = uint64_t{1} << bit;
        errno = 0;
        const uint64_t handle = hlthunk_device_memory_alloc(card.fd, 1, page, false, false);
        EXPECT_EQ(handle != 0, (sizes & page) != 0) << bit;
        if (handle == 0) {
            EXPECT_EQ(errno, EINVAL) << bit;
            continue;
        }
        hlthunk_dram_usage_info usage{};
        EXPECT_EQ(hlthunk_get_dram_usage(card.fd, &usage), 0);
        EXPECT_EQ(usage.ctx_dram_mem, page);
        const uint64_t address = hlthunk_device_memory_map(card.fd, handle, 0);
        EXPECT_EQ(address % page, 0u) << bit;
        EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
        EXPECT_EQ(hlthunk_device_memory_free(card.fd, handle), 0);
    }
    EXPECT_EQ(sizes & -sizes, 32 * kMiB);
}

TEST_F(OpenGaudi3, page_size_not_a_power_of_two_is_refused) {
    const Card card;
    for (const uint64_t page : {48 * kMiB, 96 * kMiB, 32 * kMiB + 1, kPage})
        EXPECT_EQ(error_of([&] { return hlthunk_device_memory_alloc(card.fd, 1, page, false, false); }), EINVAL);
}

TEST_F(OpenGaudi3, whole_memory_can_be_allocated) {
    const Card card;
    hlthunk_hw_ip_info info{};
    ASSERT_EQ(hlthunk_get_hw_ip_info(card.fd, &info), 0);
    const uint64_t whole = hlthunk_device_memory_alloc(card.fd, info.dram_size, 0, true, false);
    EXPECT_NE(whole, 0u);
    EXPECT_EQ(error_of([&] { return hlthunk_device_memory_alloc(card.fd, 1, 0, false, false); }), ENOMEM);
    EXPECT_EQ(hlthunk_device_memory_free(card.fd, whole), 0);
    EXPECT_NE(hlthunk_device_memory_alloc(card.fd, info.dram_size, 0, false, false), 0u);
}

TEST_F(OpenGaudi3, memory_can_be_exported) {
    Card card;
    const uint64_t address = card.memory(64 * kMiB);
    const int fd = hlthunk_device_mapped_memory_export_dmabuf_fd(card.fd, address, 64 * kMiB, 0, O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    const auto out = pattern(5000);
    std::vector<unsigned char> back(out.size());
    EXPECT_EQ(pwrite(fd, out.data(), out.size(), 12345), static_cast<ssize_t>(out.size()));
    EXPECT_EQ(pread(fd, back.data(), back.size(), 12345), static_cast<ssize_t>(back.size()));
    EXPECT_EQ(out, back);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), -EINVAL);
    EXPECT_EQ(close(fd), 0);
    EXPECT_EQ(hlthunk_memory_unmap(card.fd, address), 0);
}

} // namespace
