/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The C ABI of libhl-thunk, declared by hand: the library has no stable package
 * to build against, and only its layouts matter. The assertions at the end pin
 * every struct. Plain C, so that C programs can use it.
 *
 * hlthunk_hash_* are left out: the vendor's header declares them, and no library
 * has them.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- enumerations -------------------------------------------------------- */

enum hlthunk_device_name {
    HLTHUNK_DEVICE_GOYA = 0,
    HLTHUNK_DEVICE_GAUDI = 2,
    HLTHUNK_DEVICE_INVALID = 3,
    HLTHUNK_DEVICE_DONT_CARE = 4,
    HLTHUNK_DEVICE_GAUDI2 = 5,
    HLTHUNK_DEVICE_GAUDI3 = 7,
    HLTHUNK_DEVICE_MAX = 9
};

enum hlthunk_event_record_id {
    HLTHUNK_OPEN_DEV = 0,
    HLTHUNK_CS_TIMEOUT = 1,
    HLTHUNK_RAZWI_EVENT = 2,
    HLTHUNK_UNDEFINED_OPCODE = 3,
    HLTHUNK_HW_ERR_OPCODE = 4,
    HLTHUNK_FW_ERR_OPCODE = 5
};

enum hl_device_status {
    HL_DEVICE_STATUS_OPERATIONAL = 0,
    HL_DEVICE_STATUS_IN_RESET = 1,
    HL_DEVICE_STATUS_MALFUNCTION = 2,
    HL_DEVICE_STATUS_NEEDS_RESET = 3,
    HL_DEVICE_STATUS_IN_DEVICE_CREATION = 4,
    HL_DEVICE_STATUS_IN_RESET_AFTER_DEVICE_RELEASE = 5
};

enum hl_engine_command { HL_ENGINE_CORE_HALT = 1, HL_ENGINE_CORE_RUN = 2, HL_ENGINE_STALL = 3, HL_ENGINE_RESUME = 4 };

enum hl_server_type { HL_SERVER_TYPE_UNKNOWN = 0, HL_SERVER_GAUDI2_HLS2 = 5, HL_SERVER_GAUDI3_HLS3 = 8 };

/* PCI device ids. */
enum { HL_PCI_ID_INVALID = 0, HL_PCI_ID_GAUDI2 = 0x1020, HL_PCI_ID_GAUDI3 = 0x1060 };

/* Status that wait_for_cs and the interrupt waits report. */
enum hl_wait_status {
    HL_WAIT_CS_STATUS_COMPLETED = 0,
    HL_WAIT_CS_STATUS_BUSY = 1,
    HL_WAIT_CS_STATUS_TIMEDOUT = 2,
    HL_WAIT_CS_STATUS_ABORTED = 3
};

enum {
    HL_CS_FLAGS_FORCE_RESTORE = 0x1,
    HL_CS_FLAGS_SKIP_RESET_ON_TIMEOUT = 0x400,

    HL_CS_CHUNK_FLAGS_USER_ALLOC_CB = 0x1, /* cb_handle is a device address */

    HL_MEM_FORCE_HINT = 0x8,

    HL_MAX_JOBS_PER_CS = 512,
    HL_MAX_CB_SIZE = 0x1FFFE0, /* 2 MiB - 32 */

    HL_INFO_VERSION_MAX_LEN = 128,
    HL_INFO_CARD_NAME_MAX_LEN = 16,
    HL_PLL_NUM_OUTPUTS = 4,
    HL_MAX_REPLACED_ROWS = 32
};

/* Bits of the mask that hlthunk_notifier_recv returns. */
enum {
    HL_NOTIFIER_EVENT_TPC_ASSERT = 1 << 0,
    HL_NOTIFIER_EVENT_UNDEFINED_OPCODE = 1 << 1,
    HL_NOTIFIER_EVENT_DEVICE_RESET = 1 << 2,
    HL_NOTIFIER_EVENT_CS_TIMEOUT = 1 << 3,
    HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE = 1 << 4,
    HL_NOTIFIER_EVENT_USER_ENGINE_ERR = 1 << 5,
    HL_NOTIFIER_EVENT_GENERAL_HW_ERR = 1 << 6,
    HL_NOTIFIER_EVENT_RAZWI = 1 << 7,
    HL_NOTIFIER_EVENT_PAGE_FAULT = 1 << 8,
    HL_NOTIFIER_EVENT_CRITICAL_HW_ERR = 1 << 9,
    HL_NOTIFIER_EVENT_CRITICAL_FW_ERR = 1 << 10
};

/* Operations of the raw INFO call (hlthunk_get_info). */
enum {
    HL_INFO_HW_IP_INFO = 0,
    HL_INFO_HW_EVENTS = 1,
    HL_INFO_DRAM_USAGE = 2,
    HL_INFO_HW_IDLE = 3,
    HL_INFO_DEVICE_STATUS = 4,
    HL_INFO_DEVICE_UTILIZATION = 6,
    HL_INFO_HW_EVENTS_AGGREGATE = 7,
    HL_INFO_CLK_RATE = 8,
    HL_INFO_RESET_COUNT = 9,
    HL_INFO_TIME_SYNC = 10,
    HL_INFO_CS_COUNTERS = 11,
    HL_INFO_PCI_COUNTERS = 12,
    HL_INFO_CLK_THROTTLE_REASON = 13,
    HL_INFO_SYNC_MANAGER = 14,
    HL_INFO_TOTAL_ENERGY = 15,
    HL_INFO_PLL_FREQUENCY = 16,
    HL_INFO_POWER = 17,
    HL_INFO_OPEN_STATS = 18,
    HL_INFO_DEV_MEM_ALLOC_PAGE_SIZES = 26,
    HL_INFO_GET_EVENTS = 30
};

/* ---- information --------------------------------------------------------- */

/* Fields that the oldest header calls "reserved" have the names of newer headers;
 * size and offsets never changed. */
struct hlthunk_hw_ip_info {
    uint64_t sram_base_address;
    uint64_t dram_base_address;
    uint64_t dram_size;
    uint32_t sram_size;
    uint32_t num_of_events;
    uint32_t device_id;
    uint32_t cpld_version;
    uint32_t psoc_pci_pll_nr;
    uint32_t psoc_pci_pll_nf;
    uint32_t psoc_pci_pll_od;
    uint32_t psoc_pci_pll_div_factor;
    uint16_t tpc_enabled_mask;
    uint8_t dram_enabled;
    uint8_t cpucp_version[HL_INFO_VERSION_MAX_LEN];
    uint32_t module_id;
    uint8_t card_name[HL_INFO_CARD_NAME_MAX_LEN];
    uint32_t decoder_enabled_mask;
    uint8_t mme_master_slave_mode;
    uint64_t tpc_enabled_mask_ext;
    uint64_t dram_page_size;
    uint16_t first_available_interrupt_id;
    uint32_t edma_enabled_mask;
    uint16_t server_type;
    uint64_t pdma_user_owned_ch_mask;
    uint16_t number_of_user_interrupts;
    uint64_t device_mem_alloc_default_page_size;
    uint64_t nic_ports_mask;
    uint8_t interposer_version;
    uint8_t substrate_version;
    uint64_t nic_ports_external_mask;
    uint32_t mme_enabled_mask;
    uint8_t odp_supported;
    uint8_t security_enabled;
    uint8_t revision_id;
    uint16_t tpc_interrupt_id;
    uint64_t engine_core_interrupt_reg_addr;
    uint32_t rotator_enabled_mask;
    uint32_t sched_arc_enabled_mask;
    uint64_t reserved_dram_size;
};

struct hlthunk_dram_usage_info {
    uint64_t dram_free_mem;
    uint64_t ctx_dram_mem;
};

struct hlthunk_engines_idle_info {
    uint32_t is_idle;
    uint32_t pad;
    uint64_t mask[4];
};

struct hlthunk_clk_throttle_info {
    uint32_t clk_throttle_reason_bitmask;
    uint64_t clk_throttle_start_timestamp_us[2];
    uint64_t clk_throttle_duration_ns[2];
};

struct hlthunk_open_stats_info {
    uint64_t open_counter;
    uint64_t last_open_period_ms;
    uint8_t is_compute_ctx_active;
    uint8_t compute_ctx_in_release;
    uint8_t compute_ctx_has_mapped_resources; /* newer libraries only */
};

struct hlthunk_power_info {
    uint64_t power;
};

struct hlthunk_energy_info {
    uint64_t total_energy_consumption;
};

struct hlthunk_hw_asic_status {
    struct hlthunk_clk_throttle_info throttle;
    struct hlthunk_open_stats_info open_stats;
    struct hlthunk_power_info power;
    uint32_t status;
    uint64_t timestamp_sec;
    uint8_t valid;
};

struct hlthunk_pll_frequency_info {
    uint16_t output[HL_PLL_NUM_OUTPUTS];
};

struct hlthunk_reset_count_info {
    uint32_t hard_reset_count;
    uint32_t soft_reset_count;
};

/* 16 bytes in the open library, 24 in newer ones: callers always pass 24. */
struct hlthunk_time_sync_info {
    uint64_t device_time;
    uint64_t host_time;
    uint64_t tsc_time;
};

struct hlthunk_sync_manager_info {
    uint32_t first_available_sync_object;
    uint32_t first_available_monitor;
    uint32_t first_available_cq;
    uint32_t reserved;
};

struct hl_info_cs_counters {
    uint64_t total_out_of_mem_drop_cnt;
    uint64_t ctx_out_of_mem_drop_cnt;
    uint64_t total_parsing_drop_cnt;
    uint64_t ctx_parsing_drop_cnt;
    uint64_t total_queue_full_drop_cnt;
    uint64_t ctx_queue_full_drop_cnt;
    uint64_t total_device_in_reset_drop_cnt;
    uint64_t ctx_device_in_reset_drop_cnt;
    uint64_t total_max_cs_in_flight_drop_cnt;
    uint64_t ctx_max_cs_in_flight_drop_cnt;
    uint64_t total_validation_drop_cnt;
    uint64_t ctx_validation_drop_cnt;
};

struct hlthunk_pci_counters_info {
    uint64_t rx_throughput;
    uint64_t tx_throughput;
    uint32_t replay_cnt;
};

struct hlthunk_dram_replaced_rows_info {
    uint16_t num_replaced_rows;
    uint8_t pad[6];
    struct {
        uint8_t hbm_idx;
        uint8_t pc;
        uint8_t sid;
        uint8_t bank_idx;
        uint16_t row_addr;
        uint8_t replaced_row_cause;
        uint8_t pad;
    } replaced_rows[HL_MAX_REPLACED_ROWS];
};

struct hlthunk_sec_attest_info {
    uint8_t opaque[3592];
};

struct hlthunk_page_fault_mapping {
    uint64_t dev_va;
    uint64_t size;
};

struct hlthunk_page_fault_info {
    int64_t timestamp;
    uint64_t addr;
    uint16_t engine_id;
    uint32_t num_of_mappings;
    struct hlthunk_page_fault_mapping *mappings;
};

struct hlthunk_event_record_open_dev_time {
    int64_t timestamp;
};

struct hlthunk_event_record_cs_timeout {
    int64_t timestamp;
    uint64_t seq;
};

enum {
    HL_RAZWI_READ = 1 << 0,
    HL_RAZWI_WRITE = 1 << 1,
    HL_RAZWI_LBW = 1 << 2,
    HL_RAZWI_HBW = 1 << 3,
    HL_RAZWI_NA_ENG_ID = 0xFFFF,
    HL_RAZWI_MAX_NUM_OF_ENGINES_PER_RTR = 128
};

struct hlthunk_event_record_razwi_event {
    int64_t timestamp;
    uint64_t addr;
    uint16_t engine_id[HL_RAZWI_MAX_NUM_OF_ENGINES_PER_RTR];
    uint16_t num_of_possible_engines;
    uint8_t flags;
};

struct hlthunk_event_record_undefined_opcode {
    int64_t timestamp;
    uint64_t cb_addr_streams[4][8];
    uint64_t cq_addr;
    uint32_t cq_size;
    uint32_t cb_addr_streams_len;
    uint32_t engine_id;
    uint32_t stream_id;
};

struct hlthunk_event_record_critical_hw_err {
    int64_t timestamp;
    uint16_t event_id;
};

struct hlthunk_event_record_critical_fw_err {
    int64_t timestamp;
    uint32_t err_type;
    uint16_t reported_err_id;
};

struct hl_info_args {
    uint64_t return_pointer;
    uint32_t return_size;
    uint32_t op;
    union {
        uint32_t dcore_id;
        uint32_t ctx_id;
        uint32_t period_ms;
        uint32_t pll_index;
        uint32_t eventfd;
        uint32_t user_buffer_actual_size;
        uint32_t sec_attest_nonce;
        uint32_t array_size;
        uint32_t fw_sub_opcode;
    };
    uint32_t pad;
};

/* ---- command submission -------------------------------------------------- */

struct hl_cs_chunk {
    union {
        uint64_t cb_handle;
        uint64_t signal_seq_arr;
        uint64_t encaps_signal_seq;
    };
    uint32_t queue_index;
    union {
        uint32_t cb_size;
        uint32_t num_signal_seq_arr;
        uint32_t encaps_signal_offset;
    };
    uint32_t cs_chunk_flags;
    uint32_t collective_engine_id;
    uint32_t pad[10];
};

struct hlthunk_cs_in {
    void *chunks_restore;
    void *chunks_execute;
    uint32_t num_chunks_restore;
    uint32_t num_chunks_execute;
    uint32_t flags;
};

struct hlthunk_cs_out {
    uint64_t seq;
    uint32_t status;
    uint16_t sob_count_before_submission;
};

struct hlthunk_signal_in {
    void *chunks_restore;
    uint32_t num_chunks_restore;
    uint32_t queue_index;
    uint32_t flags;
};

struct hlthunk_signal_out {
    uint64_t seq;
    uint32_t status;
    uint32_t sob_base_addr_offset;
    uint16_t sob_count_before_submission;
};

struct hlthunk_wait_for_signal_data {
    union {
        uint64_t *signal_seq_arr;
        uint64_t encaps_signal_seq;
    };
    uint32_t signal_seq_nr;
    uint32_t queue_index;
    uint32_t flags;
    uint32_t collective_engine_id;
    uint32_t encaps_signal_offset;
};

struct hlthunk_wait_in {
    void *chunks_restore;
    uint32_t num_chunks_restore;
    uint64_t *hlthunk_wait_for_signal;
    uint32_t num_wait_for_signal;
    uint32_t flags;
};

struct hlthunk_wait_out {
    uint64_t seq;
    uint32_t status;
};

struct hlthunk_sig_res_in {
    uint32_t queue_index;
    uint32_t count;
};

struct reserve_sig_handle {
    uint32_t id;
    uint32_t sob_base_addr_offset;
    uint32_t count;
};

struct hlthunk_sig_res_out {
    struct reserve_sig_handle handle;
    uint32_t status;
};

struct hlthunk_wait_multi_cs_in {
    uint64_t *seq;
    uint64_t timeout_us;
    uint32_t seq_len;
};

struct hlthunk_wait_multi_cs_out {
    uint32_t status;
    uint32_t seq_set;
    uint8_t completed;
};

/* ---- rest ---------------------------------------------------------------- */

enum { HL_DEBUG_OP_SET_MODE = 7 };

struct hl_debug_args {
    uint64_t input_ptr;
    uint64_t output_ptr;
    uint32_t input_size;
    uint32_t output_size;
    uint32_t op;
    uint32_t reg_idx;
    uint32_t enable;
    uint32_t ctx_id;
};

struct hlthunk_debugfs {
    int addr_fd;
    int data_fd;
    int clk_gate_fd;
    char clk_gate_val[32];
};

/* ---- the 100 functions --------------------------------------------------- */

int hlthunk_open(enum hlthunk_device_name name, const char *busid);
int hlthunk_open_by_module_id(uint32_t module_id);
int hlthunk_open_control(int dev_id, const char *busid);
int hlthunk_open_control_by_name(enum hlthunk_device_name name, const char *busid);
int hlthunk_open_control_by_module_id(uint32_t module_id);
int hlthunk_open_control_by_bus_id(const char *busid);
int hlthunk_close(int fd);
uint32_t hlthunk_get_device_id_from_fd(int fd);
enum hlthunk_device_name hlthunk_get_device_name_from_fd(int fd);
int hlthunk_get_pci_bus_id_from_fd(int fd, char *pci_bus_id, int len);
int hlthunk_get_device_index_from_pci_bus_id(const char *busid);
int hlthunk_get_device_count(enum hlthunk_device_name name);
char *hlthunk_get_version(void);
void *hlthunk_malloc(size_t size);
void hlthunk_free(void *ptr);

int hlthunk_get_hw_ip_info(int fd, struct hlthunk_hw_ip_info *info);
/* An enum hl_device_status or -errno: int as in newer headers, since the enum of
 * the oldest cannot hold the latter. The ABI is the same. */
int hlthunk_get_device_status_info(int fd);
int hlthunk_get_dram_usage(int fd, struct hlthunk_dram_usage_info *info);
bool hlthunk_is_device_idle(int fd);
int hlthunk_get_busy_engines_mask(int fd, struct hlthunk_engines_idle_info *info);
int hlthunk_get_open_stats(int fd, struct hlthunk_open_stats_info *info);
int hlthunk_get_hw_asic_status(int fd, struct hlthunk_hw_asic_status *info);
int hlthunk_get_clk_rate(int fd, uint32_t *cur_clk_mhz, uint32_t *max_clk_mhz);
int hlthunk_get_clk_throttle_info(int fd, struct hlthunk_clk_throttle_info *info);
int hlthunk_get_pll_frequency(int fd, uint32_t index, struct hlthunk_pll_frequency_info *info);
int hlthunk_get_device_utilization(int fd, uint32_t period_ms, uint32_t *rate);
int hlthunk_get_hw_events_arr(int fd, bool aggregate, uint32_t size, uint32_t *events);
int hlthunk_get_reset_count_info(int fd, struct hlthunk_reset_count_info *info);
int hlthunk_get_time_sync_info(int fd, struct hlthunk_time_sync_info *info);
int hlthunk_get_sync_manager_info(int fd, int dcore_id, struct hlthunk_sync_manager_info *info);
int hlthunk_get_cs_counters_info(int fd, struct hl_info_cs_counters *info);
int hlthunk_get_pci_counters_info(int fd, struct hlthunk_pci_counters_info *info);
int hlthunk_get_total_energy_consumption_info(int fd, struct hlthunk_energy_info *info);
int hlthunk_get_power_info(int fd, struct hlthunk_power_info *info);
int hlthunk_get_dev_memalloc_page_orders(int fd, uint64_t *page_order_bitmask);
int hlthunk_get_dram_replaced_rows_info(int fd, struct hlthunk_dram_replaced_rows_info *info);
int hlthunk_get_dram_pending_rows_info(int fd, uint32_t *count);
int hlthunk_get_sec_attest_info(int fd, uint32_t nonce, struct hlthunk_sec_attest_info *info);
int hlthunk_get_engine_status(int fd, char *buffer, uint32_t size, int *actual_size);
int hlthunk_get_event_record(int fd, enum hlthunk_event_record_id id, void *record);
int hlthunk_get_page_fault_info(int fd, struct hlthunk_page_fault_info *info, uint32_t num_of_alloc_entries);
int hlthunk_fw_send_generic_request(int fd, void *buffer, uint32_t size, uint32_t sub_opcode);
int hlthunk_get_info(int fd, struct hl_info_args *args);

uint64_t hlthunk_device_memory_alloc(int fd, uint64_t size, uint64_t page_size, bool contiguous, bool shared);
int hlthunk_device_memory_free(int fd, uint64_t handle);
uint64_t hlthunk_device_memory_map(int fd, uint64_t handle, uint64_t hint_addr);
uint64_t hlthunk_host_memory_map(int fd, void *host_virt_addr, uint64_t hint_addr, uint64_t host_size);
uint64_t hlthunk_host_memory_map_flags(int fd, void *host_virt_addr, uint64_t hint_addr, uint64_t host_size,
                                       uint32_t flags);
int hlthunk_memory_unmap(int fd, uint64_t device_virt_addr);
int hlthunk_device_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size, uint32_t flags);
int hlthunk_device_mapped_memory_export_dmabuf_fd(int fd, uint64_t addr, uint64_t size, uint64_t offset,
                                                  uint32_t flags);
int hlthunk_get_hw_block(int fd, uint64_t block_address, uint32_t *block_size, uint64_t *handle);
int hlthunk_allocate_timestamp_elements(int fd, uint32_t num_elements, uint64_t *handle);

int hlthunk_request_command_buffer(int fd, uint32_t cb_size, uint64_t *cb_handle);
int hlthunk_request_mapped_command_buffer(int fd, uint32_t cb_size, uint64_t *cb_handle);
int hlthunk_get_mapped_cb_device_va_by_handle(int fd, uint64_t cb_handle, uint64_t *device_va);
int hlthunk_get_cb_usage_count(int fd, uint64_t cb_handle, uint32_t *usage_cnt);
int hlthunk_destroy_command_buffer(int fd, uint64_t cb_handle);

int hlthunk_command_submission(int fd, struct hlthunk_cs_in *in, struct hlthunk_cs_out *out);
int hlthunk_command_submission_timeout(int fd, struct hlthunk_cs_in *in, struct hlthunk_cs_out *out,
                                       uint32_t timeout_sec);
int hlthunk_staged_command_submission(int fd, uint64_t sequence, struct hlthunk_cs_in *in, struct hlthunk_cs_out *out);
int hlthunk_staged_command_submission_timeout(int fd, uint64_t sequence, struct hlthunk_cs_in *in,
                                              struct hlthunk_cs_out *out, uint32_t timeout_sec);
int hlthunk_staged_command_submission_encaps_signals(int fd, uint64_t handle_id, struct hlthunk_cs_in *in,
                                                     struct hlthunk_cs_out *out);
int hlthunk_wait_for_cs(int fd, uint64_t seq, uint64_t timeout_us, uint32_t *status);
int hlthunk_wait_for_cs_with_timestamp(int fd, uint64_t seq, uint64_t timeout_us, uint32_t *status,
                                       uint64_t *timestamp);
int hlthunk_wait_for_multi_cs(int fd, struct hlthunk_wait_multi_cs_in *in, struct hlthunk_wait_multi_cs_out *out);
int hlthunk_wait_for_multi_cs_with_timestamp(int fd, struct hlthunk_wait_multi_cs_in *in,
                                             struct hlthunk_wait_multi_cs_out *out, uint64_t *timestamp);
int hlthunk_signal_submission(int fd, struct hlthunk_signal_in *in, struct hlthunk_signal_out *out);
int hlthunk_signal_submission_timeout(int fd, struct hlthunk_signal_in *in, struct hlthunk_signal_out *out,
                                      uint32_t timeout_sec);
int hlthunk_wait_for_signal(int fd, struct hlthunk_wait_in *in, struct hlthunk_wait_out *out);
int hlthunk_wait_for_signal_timeout(int fd, struct hlthunk_wait_in *in, struct hlthunk_wait_out *out,
                                    uint32_t timeout_sec);
int hlthunk_wait_for_collective_signal(int fd, struct hlthunk_wait_in *in, struct hlthunk_wait_out *out);
int hlthunk_wait_for_collective_signal_timeout(int fd, struct hlthunk_wait_in *in, struct hlthunk_wait_out *out,
                                               uint32_t timeout_sec);
int hlthunk_reserve_encaps_signals(int fd, struct hlthunk_sig_res_in *in, struct hlthunk_sig_res_out *out);
int hlthunk_unreserve_encaps_signals(int fd, struct reserve_sig_handle *handle, uint32_t *status);
int hlthunk_wait_for_reserved_encaps_signals(int fd, struct hlthunk_wait_in *in, struct hlthunk_wait_out *out);
int hlthunk_wait_for_reserved_encaps_collective_signals(int fd, struct hlthunk_wait_in *in,
                                                        struct hlthunk_wait_out *out);
int hlthunk_cs_flush_pci_hbw_writes(int fd);
int hlthunk_engine_cores_set_mode(int fd, const uint32_t *core_ids, uint32_t num_cores, uint32_t core_mode);
int hlthunk_engines_command(int fd, const uint32_t *engine_ids, uint32_t num_engines,
                            enum hl_engine_command engine_command);

int hlthunk_wait_for_interrupt(int fd, void *addr, uint64_t target_value, uint32_t interrupt_id, uint64_t timeout_us,
                               uint32_t *status);
int hlthunk_wait_for_interrupt_with_timestamp(int fd, void *addr, uint64_t target_value, uint32_t interrupt_id,
                                              uint64_t timeout_us, uint32_t *status, uint64_t *timestamp);
int hlthunk_wait_for_interrupt_by_handle(int fd, uint64_t cq_counters_handle, uint64_t cq_counters_offset,
                                         uint64_t target_value, uint32_t interrupt_id, uint64_t timeout_us,
                                         uint32_t *status);
int hlthunk_wait_for_interrupt_by_handle_with_timestamp(int fd, uint64_t cq_counters_handle,
                                                        uint64_t cq_counters_offset, uint64_t target_value,
                                                        uint32_t interrupt_id, uint64_t timeout_us, uint32_t *status,
                                                        uint64_t *timestamp);
int hlthunk_register_timestamp_interrupt(int fd, uint32_t interrupt_id, uint64_t cq_counters_handle,
                                         uint64_t cq_counters_offset, uint64_t target_value, uint64_t timestamp_handle,
                                         uint64_t timestamp_offset);

int hlthunk_notifier_create(int fd);
int hlthunk_notifier_release(int fd, int handle);
int hlthunk_notifier_recv(int fd, int handle, uint64_t *notifier_events, uint64_t *notifier_cnt, uint32_t flags,
                          uint32_t timeout);

int hlthunk_debug(int fd, struct hl_debug_args *debug);
int hlthunk_debugfs_open(int fd, struct hlthunk_debugfs *debugfs);
int hlthunk_debugfs_read(struct hlthunk_debugfs *debugfs, uint64_t full_address, uint32_t *val);
int hlthunk_debugfs_write(struct hlthunk_debugfs *debugfs, uint64_t full_address, uint32_t val);
int hlthunk_debugfs_close(struct hlthunk_debugfs *debugfs);
int hlthunk_profiler_start(int fd);
int hlthunk_profiler_stop(int fd);
int hlthunk_profiler_get_trace(int fd, void *buffer, uint64_t *size, uint64_t *num_entries);
void hlthunk_profiler_destroy(void);
int hlthunk_deprecated_func1(int fd, uint64_t seq, uint64_t timeout_us, uint32_t *status, uint64_t *timestamp);
int hlthunk_deprecated_func2(int fd, uint32_t interrupt_id, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e);
int hlthunk_deprecated_func3(int fd, uint32_t num_elements, uint64_t *handle);

#ifdef __cplusplus
}
#endif

/* ---- the layouts, pinned ------------------------------------------------- */

#define UG_SIZE(type, size) static_assert(sizeof(struct type) == (size), #type " has the wrong size")
#define UG_AT(type, field, offset)                                                                                     \
    static_assert(offsetof(struct type, field) == (offset), #type "." #field " is misplaced")

UG_SIZE(hlthunk_hw_ip_info, 336);
UG_AT(hlthunk_hw_ip_info, sram_size, 24);
UG_AT(hlthunk_hw_ip_info, device_id, 32);
UG_AT(hlthunk_hw_ip_info, tpc_enabled_mask, 56);
UG_AT(hlthunk_hw_ip_info, dram_enabled, 58);
UG_AT(hlthunk_hw_ip_info, cpucp_version, 59);
UG_AT(hlthunk_hw_ip_info, module_id, 188);
UG_AT(hlthunk_hw_ip_info, card_name, 192);
UG_AT(hlthunk_hw_ip_info, decoder_enabled_mask, 208);
UG_AT(hlthunk_hw_ip_info, mme_master_slave_mode, 212);
UG_AT(hlthunk_hw_ip_info, tpc_enabled_mask_ext, 216);
UG_AT(hlthunk_hw_ip_info, dram_page_size, 224);
UG_AT(hlthunk_hw_ip_info, first_available_interrupt_id, 232);
UG_AT(hlthunk_hw_ip_info, edma_enabled_mask, 236);
UG_AT(hlthunk_hw_ip_info, server_type, 240);
UG_AT(hlthunk_hw_ip_info, pdma_user_owned_ch_mask, 248);
UG_AT(hlthunk_hw_ip_info, number_of_user_interrupts, 256);
UG_AT(hlthunk_hw_ip_info, device_mem_alloc_default_page_size, 264);
UG_AT(hlthunk_hw_ip_info, nic_ports_mask, 272);
UG_AT(hlthunk_hw_ip_info, interposer_version, 280);
UG_AT(hlthunk_hw_ip_info, nic_ports_external_mask, 288);
UG_AT(hlthunk_hw_ip_info, mme_enabled_mask, 296);
UG_AT(hlthunk_hw_ip_info, odp_supported, 300);
UG_AT(hlthunk_hw_ip_info, security_enabled, 301);
UG_AT(hlthunk_hw_ip_info, revision_id, 302);
UG_AT(hlthunk_hw_ip_info, tpc_interrupt_id, 304);
UG_AT(hlthunk_hw_ip_info, engine_core_interrupt_reg_addr, 312);
UG_AT(hlthunk_hw_ip_info, rotator_enabled_mask, 320);
UG_AT(hlthunk_hw_ip_info, reserved_dram_size, 328);

UG_SIZE(hlthunk_dram_usage_info, 16);
UG_SIZE(hlthunk_engines_idle_info, 40);
UG_SIZE(hlthunk_clk_throttle_info, 40);
UG_SIZE(hlthunk_open_stats_info, 24);
UG_AT(hlthunk_open_stats_info, is_compute_ctx_active, 16);
UG_AT(hlthunk_open_stats_info, compute_ctx_in_release, 17);
UG_SIZE(hlthunk_hw_asic_status, 96);
UG_AT(hlthunk_hw_asic_status, open_stats, 40);
UG_AT(hlthunk_hw_asic_status, power, 64);
UG_AT(hlthunk_hw_asic_status, status, 72);
UG_AT(hlthunk_hw_asic_status, timestamp_sec, 80);
UG_AT(hlthunk_hw_asic_status, valid, 88);
UG_SIZE(hlthunk_pll_frequency_info, 8);
UG_SIZE(hlthunk_reset_count_info, 8);
UG_SIZE(hlthunk_time_sync_info, 24);
UG_SIZE(hlthunk_sync_manager_info, 16);
UG_SIZE(hl_info_cs_counters, 96);
UG_SIZE(hlthunk_pci_counters_info, 24);
UG_SIZE(hlthunk_power_info, 8);
UG_SIZE(hlthunk_energy_info, 8);
UG_SIZE(hlthunk_dram_replaced_rows_info, 264);
UG_AT(hlthunk_dram_replaced_rows_info, replaced_rows, 8);
UG_SIZE(hlthunk_sec_attest_info, 3592);
UG_SIZE(hlthunk_page_fault_info, 32);
UG_AT(hlthunk_page_fault_info, num_of_mappings, 20);
UG_AT(hlthunk_page_fault_info, mappings, 24);
UG_SIZE(hlthunk_event_record_open_dev_time, 8);
UG_SIZE(hlthunk_event_record_cs_timeout, 16);
UG_SIZE(hlthunk_event_record_razwi_event, 280);
UG_AT(hlthunk_event_record_razwi_event, flags, 274);
UG_SIZE(hlthunk_event_record_undefined_opcode, 288);
UG_AT(hlthunk_event_record_undefined_opcode, cq_addr, 264);
UG_AT(hlthunk_event_record_undefined_opcode, stream_id, 284);
UG_SIZE(hlthunk_event_record_critical_hw_err, 16);
UG_SIZE(hlthunk_event_record_critical_fw_err, 16);
UG_SIZE(hl_info_args, 24);
UG_SIZE(hl_cs_chunk, 64);
UG_AT(hl_cs_chunk, queue_index, 8);
UG_AT(hl_cs_chunk, cb_size, 12);
UG_AT(hl_cs_chunk, cs_chunk_flags, 16);
UG_SIZE(hlthunk_cs_in, 32);
UG_AT(hlthunk_cs_in, num_chunks_execute, 20);
UG_SIZE(hlthunk_cs_out, 16);
UG_SIZE(hlthunk_signal_in, 24);
UG_SIZE(hlthunk_signal_out, 24);
UG_SIZE(hlthunk_wait_for_signal_data, 32);
UG_SIZE(hlthunk_wait_in, 32);
UG_SIZE(hlthunk_wait_out, 16);
UG_SIZE(hlthunk_sig_res_in, 8);
UG_SIZE(hlthunk_sig_res_out, 16);
UG_SIZE(hlthunk_wait_multi_cs_in, 24);
UG_SIZE(hlthunk_wait_multi_cs_out, 12);
UG_SIZE(hl_debug_args, 40);
UG_SIZE(hlthunk_debugfs, 44);

#undef UG_SIZE
#undef UG_AT
